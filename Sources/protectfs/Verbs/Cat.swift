import ArgumentParser
import DataProtection
import Glibc

/// Protected files to standard output.
struct Cat: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cat", abstract: "Print the contents of protected files.",
        discussion: """
            If a file is damaged, or is locked while it is read, everything before that place is printed, and the \
            error names the byte where the output ends. If a damaged head hides later changes, an older state is \
            printed and the exit status is 65. Bytes that another program has appended are not printed; a warning \
            says how many there are.
            """)

    @Argument(help: "Protected files.")
    var files: [PathsArgument]
    @Option(
        help: ArgumentHelp(
            "Print only these bytes: first-last (inclusive, counted from 0), first- (to the end), or -count (the last ones).",
            valueName: "range"))
    var range: ByteRange?
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybags = Keybags(keybag)
        let buffer = PlaintextBuffer()
        let outcome = Outcome()
        for file in try files.stored() {
            do {
                try copy(file, keybags, through: buffer)
            } catch let failure as OutputFailure {
                throw failure.failure  // for the other files it would be the same
            } catch {
                outcome.record(error)
            }
        }
        try outcome.leave()
    }

    /// Standard output does not take any more.
    private struct OutputFailure: Error { let failure: Failure }

    private func copy(
        _ path: FilePath, _ keybags: Keybags, through buffer: PlaintextBuffer
    ) throws {
        let opened = try keybags.reading(path) { keybag throws(DataProtectionError) in
            let lower = try LowerFile(regular: path, flags: O_RDONLY)
            let beginning = range == nil ? buffer.bytes : UnsafeMutableRawBufferPointer(start: nil, count: 0)
            return try ProtectedFile.reading(lower, into: beginning, keybag: keybag)
        }
        let file = opened.file
        var wanted: Range<Int64> = 0..<Int64.max
        if let range { wanted = range.bytes(ofFileWithSize: file.lastSize) }
        var offset = wanted.lowerBound
        var first = opened.count
        while offset < wanted.upperBound {
            let piece = UnsafeMutableRawBufferPointer(
                rebasing: buffer.bytes.prefix(Int(min(Int64(buffer.bytes.count), wanted.upperBound - offset))))
            let count: Int
            do throws(DataProtectionError) {
                if let read = first.take() { count = read } else { count = try file.read(into: piece, at: offset) }
            } catch {
                let good = try copyGoodPart(before: error, of: file, from: offset, piece)
                StandardError.line(.warning, "output of \(quoted(path)) ends at byte \(good)")
                throw error
            }
            if count == 0 { break }
            try write(UnsafeRawBufferPointer(rebasing: piece[..<count]))
            offset += Int64(count)
            if count < piece.count { break }  // the end
            buffer.grow()
        }
        let findings = try Self.findings(in: file)
        try file.close()
        for finding in findings {
            switch finding {
            case .appended: StandardError.line(.warning, finding.message(path))
            // All that could be read has been written, but it may not be the newest state.
            case .commitsUnreachable: throw finding.failure(path)
            default: break  // a writer was killed: nothing is missing
            }
        }
    }

    /// Nothing is known of a file that was locked behind its last byte.
    private static func findings(
        in file: ProtectedFile
    ) throws(DataProtectionError) -> [FileVerification.Finding] {
        do throws(DataProtectionError) { return try file.findings() } catch {
            guard error.isLocked else { throw error }
            return []
        }
    }

    /// A piece holds many chunks; those before the damaged one are good.
    ///
    /// - Returns: where the output ends.
    private func copyGoodPart(
        before error: DataProtectionError, of file: ProtectedFile, from offset: Int64,
        _ piece: UnsafeMutableRawBufferPointer
    ) throws -> Int64 {
        guard case .damaged(_, _, _, let damaged?) = error, damaged > offset, damaged - offset < piece.count else {
            return offset
        }
        let part = UnsafeMutableRawBufferPointer(rebasing: piece[..<Int(damaged - offset)])
        guard let count = try? file.read(into: part, at: offset) else { return offset }
        try write(UnsafeRawBufferPointer(rebasing: part[..<count]))
        return offset + Int64(count)
    }

    private func write(_ bytes: UnsafeRawBufferPointer) throws(OutputFailure) {
        do throws(Failure) { try StandardOutput.write(bytes) } catch { throw OutputFailure(failure: error) }
    }
}
