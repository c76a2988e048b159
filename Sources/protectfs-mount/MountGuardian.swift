import CSpawn
import CommandLanguage
import DataProtection
import Glibc
import ProtectionMount

/// A process that waits for the server's end, and takes the place of a killed one: this program, in a session of its own. Until then it has neither keys
/// nor plaintext.
struct MountGuardian {
    /// Nobody else has this end of the pipe.
    private let writer: Int32

    private static let option = "--guard"
    /// For how long the threads of a killed server may take to end, in milliseconds, if none waits for a page.
    private static let patience: Int32 = 200
    /// What the guardian has open: the end of the pipe, and what ``MountRemains`` has.
    private static let reader: Int32 = 3
    private static func remains(_ note: FilePath) -> MountRemains {
        MountRemains(connection: 4, record: 5, directory: 6, socket: 7, note: note)
    }

    /// Nil where none can be started: then a lock says that the server was killed.
    ///
    /// - Parameter words: the keybag, the directory and the point of the mount, absolute.
    init?(of remains: MountRemains, _ words: [FilePath]) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return nil }
        writer = ends[1]
        _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
        // Above the numbers that they get, so that none takes another one's place.
        let open = [ends[0], remains.connection, remains.record, remains.directory, remains.socket]
        let given = open.map { fcntl($0, F_DUPFD_CLOEXEC, Self.reader + Int32(open.count)) }
        close(ends[0])
        defer { for descriptor in given where descriptor >= 0 { close(descriptor) } }
        guard given.allSatisfy({ $0 >= 0 }), Self.start(given, [remains.note] + words) else {
            close(ends[1])
            return nil
        }
    }

    private static func start(_ given: [Int32], _ words: [FilePath]) -> Bool {
        // The signals that end the server are blocked, in the guardian too.
        var guardian = NewProcess(
            ownProgram, ["protectfs-mount", option, "\(getpid())"].map { Array($0.utf8) } + words.map(\.bytes))
        guardian.descriptors =
            (0...2).map { ($0, .null) } + zip(reader..., given).map { ($0, .copy(of: $1)) }
        guardian.directory = "/"
        guardian.isInSessionOfItsOwn = true
        return (try? guardian.start()) != nil
    }

    /// By its name, which lists of processes show; a program that was replaced since has none.
    private static var ownProgram: FilePath {
        let link: FilePath = "/proc/self/exe"
        guard let named = try? link.resolvedName() else { return link }
        return named.withPlatformString({ access($0, X_OK) }) == 0 ? named : link
    }

    /// The server ends in order.
    func dismiss() { _ = write(writer, "\n", 1) }

    /// Whether the arguments are those of the guardian.
    static func isMeant(by words: [FilePath]) -> Bool { words.count == 6 && words[0] == FilePath(option) }

    /// What the guardian does. It returns when there is nothing left to do.
    static func watch(_ words: [FilePath]) {
        // The end of the pipe alone would not tell. A thread of the killed server can wait in the kernel for a page that another thread was to
        // read, and keeps all descriptors open meanwhile. Only this process can answer for that page.
        guard let server = pid_t(words[1].string) else { return }
        protectfs_wait_for_parent(reader, server)
        var pipe = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
        var byte: UInt8 = 0
        // Its first thread has ended. Others can be about to take a request, which nobody would answer if it was taken after we asked for those.
        // Where it has ended in order, there is a byte.
        if poll(&pipe, 1, patience) > 0, read(reader, &byte, 1) != 0 { return }
        let remains = remains(words[2])
        if remains.isWorthAnotherServer { becomeServer(Array(words[2...])) }
        remains.clear()
    }

    // MARK: the next server

    private static let taking = "--take-over"

    /// A new program has nothing of what this process was. It has what this process has open. Returns if there is none.
    private static func becomeServer(_ words: [FilePath]) {
        let words = CWords(["protectfs-mount", taking].map { Array($0.utf8) } + words.map(\.bytes))
        ownProgram.withPlatformString { _ = execv($0, words.pointers) }
    }

    /// What a server has to go on with, whose arguments these are; nil if it begins a mount.
    static func takenOver(by words: [FilePath]) -> (remains: MountRemains, words: [FilePath])? {
        guard words.count == 5, words[0] == FilePath(taking) else { return nil }
        close(reader)
        let remains = remains(words[1])
        for descriptor in [remains.connection, remains.record, remains.directory, remains.socket] {
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        }
        return (remains, Array(words[2...]))
    }
}
