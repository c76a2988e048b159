import DurableFiles
import Glibc
import SystemPackage

/// The agent that follows a keybag: the file `agent` in its directory, whose first byte the agent has locked for as long as
/// it runs. FORMAT.md §2.
///
/// The lock is the truth; the text, for people, is what the holder of the lock wrote. It goes with the process, however that ends.
package struct AgentRecord: Hashable, Sendable {
    /// The agent's process.
    package var pid: Int32
    /// Seconds since 1970.
    package var since: UInt64
    /// The agent's executable.
    package var program: FilePath
    /// Whether it follows every keybag of the user that has keys in the ring, not only this one.
    package var followsAll: Bool

    package init(pid: Int32, since: UInt64, program: FilePath, followsAll: Bool) {
        (self.pid, self.since, self.program, self.followsAll) = (pid, since, program, followsAll)
    }

    package static let name = "agent"

    /// Holds the lock as long as it lives.
    package final class Holder: Sendable {
        private let file: LowerFile

        fileprivate init(_ file: LowerFile) { self.file = file }
    }

    /// Says that this agent follows the keybag in `directory`; nil: another one does.
    package func hold(in directory: FilePath) throws(DataProtectionError) -> Holder? {
        let flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK
        let file = try LowerFile(directory.appending(Self.name), flags: flags)
        guard try file.tryByteLock(0, .exclusive) else { return nil }
        try file.truncate(to: 0)
        try file.write(encoded, at: 0)
        return Holder(file)
    }

    /// The agent that follows the keybag in `directory`; nil: none.
    ///
    /// - Throws: `system` if that cannot be known; `busy` if one runs there and has not said yet which it is.
    package static func running(in directory: FilePath) throws(DataProtectionError) -> AgentRecord? {
        let path = directory.appending(name)
        guard try path.isThere() else { return nil }
        let file = try LowerFile(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        guard try file.isLockedElsewhere(0) else { return nil }
        guard let record = AgentRecord(decoding: try file.bytes(at: 0, count: 8192)) else { throw .busy(path) }
        return record
    }

    /// Whether an agent has left its text there, running or not; else `agent` is somebody else's.
    package static func isThere(in directory: FilePath) -> Bool {
        guard let file = try? LowerFile(regular: directory.appending(name), flags: O_RDONLY | O_NOFOLLOW),
            let bytes = try? file.bytes(at: 0, count: 8192)
        else { return false }
        return AgentRecord(decoding: bytes) != nil
    }

    // MARK: text

    /// Four lines; the program, which can have any bytes in its name, comes last.
    private var encoded: [UInt8] {
        Array("pid \(pid)\nsince \(since)\nfollows \(followsAll ? "all" : "one")\nprogram ".utf8) + program.bytes
    }

    private init?(decoding bytes: [UInt8]) {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 3)
        guard lines.count == 4 else { return nil }
        let words = lines.map { line in
            line.split(separator: UInt8(ascii: " "), maxSplits: 1).map { String(decoding: $0, as: UTF8.self) }
        }
        guard words.allSatisfy({ $0.count == 2 }), words.map({ $0[0] }) == ["pid", "since", "follows", "program"],
            let pid = Int32(words[0][1]), let since = UInt64(words[1][1])
        else { return nil }
        let program = FilePath(bytes: Array(lines[3].dropFirst("program ".utf8.count)))
        self.init(pid: pid, since: since, program: program, followsAll: words[2][1] == "all")
    }
}
