import DataProtection
import Glibc

/// `write --append`: every piece of standard input is on disk before the next one is read.
struct Append {
    let path: FilePath
    let protectionClass: ProtectionClass?
    let raiseTo: ProtectionClass?
    let inSegments: Bool
    let keybags: Keybags

    /// Where the input goes: a file, or a log with its segments.
    private enum Target {
        case file(ProtectedFile)
        case log(SegmentedLog)
    }

    func run() throws {
        let target = try inSegments ? openLog() : .file(open())
        let input = StandardInput(pieceSize: 256 * 1024)
        var (written, taken) = (Int64(0), 0)
        do {
            while let piece = try input.nextPiece(), !piece.isEmpty {
                taken = piece.count
                try append(piece, to: target)
                written += Int64(taken)
                taken = 0
            }
        } catch {
            let rest = taken == 0 ? "the rest" : "the next \(taken)"
            StandardError.line(
                .warning,
                "\(spoken(written, "byte")) \(written == 1 ? "was" : "were") written to \(quoted(path)); "
                    + "\(rest) of the input \(taken > 1 ? "were" : "was") not")
            try? close(target)  // the error that stopped us is the one to report
            throw error
        }
        try close(target)
        if Interruption.isRequested { throw ExitStatus.interrupted }
    }

    private func append(_ piece: UnsafeRawBufferPointer, to target: Target) throws(DataProtectionError) {
        switch target {
        case .log(let log): try log.append(piece)
        case .file(let file):
            try whenFree { () throws(DataProtectionError) in
                try file.append(piece)
                try file.sync()
            }
        }
    }

    private func close(_ target: Target) throws(DataProtectionError) {
        switch target {
        case .log(let log): try log.close()
        case .file(let file): try file.close()
        }
    }

    /// What to type behind `protectfs`.
    private func command(_ flags: String) -> String {
        "write \(flags)\(protectionClass.map { " --class \($0.shortName)" } ?? "") \(quoted(path))"
    }

    private func openLog() throws -> Target {
        .log(
            try keybags.changing(path, by: command("--append --segments")) { keybag throws(DataProtectionError) in
                try SegmentedLog(path, keybag: keybag)
            })
    }

    private func open() throws -> ProtectedFile {
        do { return try openExisting() } catch DataProtectionError.system(_, _, .noSuchFileOrDirectory) {}
        do throws(DataProtectionError) {
            return try ProtectedFile.create(
                path, as: protectionClass, raiseTo: raiseTo, keybag: keybags.own())
        } catch {
            guard case .exists = error else { throw error }
            return try openExisting()  // somebody else made it in this moment
        }
    }

    /// A class that was asked for is honoured or refused, never quietly missed.
    private func openExisting() throws -> ProtectedFile {
        let file = try keybags.changing(path, by: command("--append")) { keybag throws(DataProtectionError) in
            try ProtectedFile.open(path, .readWrite, keybag: keybag)
        }
        let own = try file.protectionClass()
        if let protectionClass, own < protectionClass {
            throw DataProtectionError.because(FileFailure.wouldWeaken(path, from: protectionClass, to: own))
        }
        return file
    }

    /// Another writer may be done in a moment.
    private func whenFree(_ step: () throws(DataProtectionError) -> Void) throws(DataProtectionError) {
        for _ in 0..<20 {
            do throws(DataProtectionError) { return try step() } catch {
                guard case .busy = error, Interruption.sleep(seconds: 0.1) else { throw error }
            }
        }
        try step()
    }
}
