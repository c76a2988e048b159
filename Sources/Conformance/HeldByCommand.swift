import DataProtection
import SystemPackage

/// `write --append` whose input has not ended: each piece is on disk before it reads the next one.
final class HeldByAppend: HeldFile {
    private let process: CommandProcess
    private let path: FilePath
    let preamble: [UInt8]
    /// A command that was refused has ended.
    let worksAgain = false
    private var size: Int
    private var hasEnded = false

    /// Waits until the first piece is in the file.
    init(_ process: CommandProcess, _ path: FilePath, _ piece: [UInt8], preamble: [UInt8]) throws {
        (self.process, self.path, self.preamble) = (process, path, preamble)
        size = (try? Self.size(of: path)) ?? 0
        try append(piece)
    }

    private static func size(of path: FilePath) throws -> Int { Int(try ProtectedFileInfo(of: path).size) }

    func append(_ bytes: [UInt8]) throws {
        process.send(bytes)
        let expected = size + bytes.count
        do {
            // Not there yet, or in the middle of a commit: looked at again.
            try CommandSubject.wait(while: process) { (try? Self.size(of: path)) == expected }
        } catch {
            hasEnded = true
            throw error
        }
        size = expected
    }

    func close() throws {
        if hasEnded { return }
        hasEnded = true
        try process.finish()
    }

    func read(at offset: Int, count: Int) throws -> [UInt8] {
        throw NotApplicable("no verb reads through the handle that it writes with")
    }

    func write(_ bytes: [UInt8], at offset: Int) throws {
        throw NotApplicable("no verb writes into the middle of a file")
    }

    func truncate(to size: Int) throws { throw NotApplicable("no verb cuts a file") }
    func sync() throws { throw NotApplicable("write --append commits each piece before it reads the next one") }
}

/// `cat` of a file that is larger than what its output takes: it has the file open, and goes on when somebody reads.
final class HeldByCat: HeldFile {
    private let process: CommandProcess
    let preamble: [UInt8] = []
    let worksAgain = false

    /// Waits until it has read the first piece.
    init(_ process: CommandProcess) {
        self.process = process
        process.waitForOutput()
    }

    /// What it read before the moment comes first.
    func read(at offset: Int, count: Int) throws -> [UInt8] {
        let bytes = try process.restOfStream()
        try process.finish()
        return Array(bytes.dropFirst(offset).prefix(count))
    }

    func close() throws {}
    func write(_ bytes: [UInt8], at offset: Int) throws { throw NotApplicable("cat only reads") }
    func append(_ bytes: [UInt8]) throws { throw NotApplicable("cat only reads") }
    func truncate(to size: Int) throws { throw NotApplicable("cat only reads") }
    func sync() throws { throw NotApplicable("cat only reads") }
}
