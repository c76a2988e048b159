import DurableFiles
import Glibc
import ProtectionFormat
public import SystemPackage

/// What remained of a lock when it was waited for: the programs that still have protected files or their plaintext open, and those that have not
/// answered.
///
/// The class keys had gone from the ring before the wait began.
public struct LockReport: Sendable, Hashable {
    /// The processes with class A or B files open or with plaintext of them, and those that did not answer, by process id.
    public let clients: [KeybagClient]
    /// Whether the search found every program that can have been asked.
    package let areAll: Bool
    /// The mounts whose servers did not answer, or were killed.
    package var mounts: [UnansweredMount] = []

    /// Whether nothing of class A remains: everybody has said that no class key and no class A file key is in its memory.
    ///
    /// Open class B handles do not count: they go on until they are closed, which is what that class is for. False also while a
    /// program holds plaintext that `protectfs run` or `protectfs edit` gave it, while a mount is there whose server was killed,
    /// and if there were more processes than could be asked.
    public var isClean: Bool {
        areAll && mounts.isEmpty && clients.allSatisfy { $0.hasAnswered && $0.plaintextFileCount == 0 }
    }
}

/// A process that has protected files of a keybag open or had since it began to use the library, or that was given plaintext.
public struct KeybagClient: Sendable, Hashable {
    /// The process, as it is numbered where it runs: in a container that may be another number than here.
    public let pid: Int32
    /// The name of its executable, as it says itself.
    public let program: String
    /// How many handles on class A files it has. They read nothing while the keybag is locked.
    public let completeHandles: Int
    /// How many handles on class B files it has. They are read and written until they are closed, locked or not.
    public let unlessOpenHandles: Int
    /// The files that these are on, 16 at most, as they were named when they were opened; of a path that is longer than
    /// 254 bytes the end.
    public let unlessOpenFiles: [FilePath]
    /// The number of class A and B files whose plaintext `protectfs run` or `protectfs edit` gave to this process. It can read
    /// the plaintext until it ends, locked or not.
    public let plaintextFileCount: Int
    /// The paths of these files, 16 at most; of a path that is longer than 254 bytes the end.
    public let plaintextFiles: [FilePath]
    /// Whether it has answered the last lock: what it was doing with class key A or B when the keys went has ended, and what
    /// it had written is committed. False for a process that is stopped, hangs, or waits for a disk.
    public let hasAnswered: Bool

    /// Whether it is worth a line.
    package var hasRemains: Bool { completeHandles + unlessOpenHandles + plaintextFileCount > 0 || !hasAnswered }

    package init(_ record: ClientRecord, _ names: [FilePath], hasAnswered: Bool) {
        plaintextFileCount = Int(record.plaintextFiles)
        (unlessOpenFiles, plaintextFiles) = plaintextFileCount == 0 ? (names, []) : ([], names)
        (pid, program, self.hasAnswered) = (record.pid, record.program, hasAnswered)
        (completeHandles, unlessOpenHandles) = (Int(record.completeHandles), Int(record.unlessOpenHandles))
    }
}

extension ClientOfKeybag {
    /// Whether it lives and has not answered yet. One whose record makes no sense is not waited for.
    func owes(_ counter: UInt64) -> Bool { (record?.acknowledged ?? .max) < counter && isAlive }
}

extension LockReport {
    init(_ clients: [ClientOfKeybag], _ areAll: Bool, after counter: UInt64) {
        let said = clients.compactMap { client in
            client.record.map { KeybagClient($0, client.names, hasAnswered: $0.acknowledged >= counter) }
        }
        self.clients = said.filter(\.hasRemains).sorted { $0.pid < $1.pid }
        self.areAll = areAll
    }
}
