/// A reader of bytes that somebody else may have written, and what must hold whatever they are: it ends, it refuses with an error of
/// its type, and what it takes it can write again.
///
/// `Tests/Fuzz/run` has libFuzzer make inputs; FuzzTests gives it those that are kept.
struct FuzzTarget: Sendable {
    /// Its folder in `Corpus`.
    let name: String
    /// In bytes: longer inputs would say nothing new.
    let longest: Int
    /// Inputs to begin with that are made of the committed vectors; others are in `Corpus`.
    let seeds: @Sendable () throws -> [[UInt8]]
    /// - Throws: ``Broken``, and nothing else, if the reader does what it must not.
    let run: @Sendable ([UInt8]) throws -> Void

    init(
        _ name: String, longest: Int, seeds: @escaping @Sendable () throws -> [[UInt8]] = { [] },
        run: @escaping @Sendable ([UInt8]) throws -> Void
    ) {
        (self.name, self.longest, self.seeds, self.run) = (name, longest, seeds, run)
    }

    static let all = [
        head, keybag, backupKeybag, recoveryExport, records, redoRecords, chunkLayout, rules, configuration, queue,
        responseHeaders, secretsImport, git, rncryptor, passwords, words,
    ]
}

/// What must hold and did not.
struct Broken: Error, CustomStringConvertible {
    let description: String
}

/// Fails unless `condition` holds.
func hold(_ condition: Bool, _ what: String) throws(Broken) {
    guard condition else { throw Broken(description: what) }
}
