import DataProtection

/// What a protected file or a keybag stores besides its contents: `explain --stored`.
struct StoredMetadata {
    private let keybags: Keybags
    private let outcome = Outcome()

    init(_ keybags: Keybags) { self.keybags = keybags }

    /// Prints the metadata of each path.
    ///
    /// - Throws: status 65 if anything is damaged, after everything that can be read was printed.
    func print(of paths: [FilePath], asJSON: Bool) throws {
        try Report.print(on: paths, asJSON: asJSON, recording: outcome) { path throws(DataProtectionError) in
            try report(on: path)
        }
    }

    private func report(on path: FilePath) throws(DataProtectionError) -> Report {
        if try NamedItem(following: path).kind == .directory || KeybagInspection.isKeybag(path) {
            let keybag = try KeybagInspection(of: path)
            for failure in keybag.failures { outcome.record(failure) }
            return Report(keybag)
        }
        var file = try FileInspection(of: path, keybag: nil)
        let keybag = file.identity.flatMap { keybags.named($0.keybag) }
        if let keybag {
            if keybags.isOther(keybag) { keybags.warn(of: keybag, reading: path) }
            file = try FileInspection(of: path, keybag: keybag)
        }
        if let problem = file.problem {
            outcome.record(problem)
        } else if case .refused(let error) = file.authenticity {
            outcome.record(error)
        }
        return Report(file, keybag)
    }
}
