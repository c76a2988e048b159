import DataProtection
import Glibc

/// The directories that are mounted over themselves at each login: `$XDG_CONFIG_HOME/protectfs/mounts`, lines of `read-only DIR` and
/// `read-write DIR`. A name is taken as its bytes to the end of the line.
struct MountList {
    private struct Entry: Hashable {
        let directory: FilePath
        let isReadOnly: Bool

        var line: [UInt8] { Array(isReadOnly ? "read-only ".utf8 : "read-write ".utf8) + directory.bytes }

        /// Nil if it makes no sense.
        init?(_ line: [UInt8]) {
            for (word, isReadOnly) in [("read-only /", true), ("read-write /", false)]
            where line.starts(with: word.utf8) {
                self.init(FilePath(bytes: Array(line[(word.utf8.count - 1)...])), isReadOnly: isReadOnly)
                return
            }
            return nil
        }

        init(_ directory: FilePath, isReadOnly: Bool) { (self.directory, self.isReadOnly) = (directory, isReadOnly) }
    }
    private var entries: [Entry]

    private static var path: FilePath { Locations.configuration.removingLastComponent().appending("mounts") }

    /// - Throws: status 78, with the line that makes no sense.
    private init() throws {
        guard try Self.path.isThere() else {
            entries = []
            return
        }
        let bytes = try LowerFile(Self.path, flags: O_RDONLY | O_NONBLOCK).textBytes()
        entries = []
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (number, line) in lines.enumerated() where !line.isEmpty {
            guard let entry = Entry(Array(line)) else {
                throw DataProtectionError.because(
                    KeybagFailure.configuration(
                        Self.path, line: number + 1, reason: "expected read-only DIR or read-write DIR"))
            }
            entries.append(entry)
        }
    }

    /// Changes the list, one process after the other.
    private static func change(_ body: (inout [Entry]) throws -> Void) throws {
        let directory = path.removingLastComponent()
        try OwnDirectory.make(directory)
        let turn = try LowerDirectory(directory)
        guard flock(turn.descriptor, LOCK_EX) == 0 else {
            throw DataProtectionError.system(directory, operation: "flock", Errno.current)
        }
        defer { withExtendedLifetime(turn) {} }
        var list = try MountList()
        try body(&list.entries)
        try AtomicReplace.write(
            list.entries.flatMap { $0.line + [UInt8(ascii: "\n")] }, to: "mounts", in: directory, through: ".mounts.new"
        )
    }

    /// Mounts a directory over itself, unless it is mounted, and has it mounted at each login.
    static func add(_ server: MountServer) throws {
        let directory = try server.directory.resolved()
        guard !directory.bytes.contains(UInt8(ascii: "\n")) else {
            throw Failure(.usage, "\(quoted(directory)) has a line break in its name, which no list can hold")
        }
        // First what can fail: nothing is listed that cannot be mounted.
        _ = try MountList()
        if try !isMounted(directory) { try server.start() }
        try change { entries in
            entries.removeAll { $0.directory == directory }
            entries.append(Entry(directory, isReadOnly: server.isReadOnly))
        }
        let program = try SiblingProgram.command()
        if UserUnit.isSystemdRunning { return try UserUnit.mounts(program).install(isPrinted: false) }
        StandardError.line(.hint, "systemd does not run here: add to ~/.profile: \(quoted(program)) mount --all")
    }

    /// A directory is not mounted at logins any more.
    ///
    /// - Throws: status 66 if it is not in the list.
    static func remove(_ directory: FilePath) throws {
        let paths = [try directory.absolute(), (try? directory.resolved()) ?? directory]
        try change { entries in
            guard entries.contains(where: { paths.contains($0.directory) }) else {
                throw Failure(
                    .notFound, "\(quoted(directory)) is not mounted at login",
                    hint: "the list is \(quoted(path))")
            }
            entries.removeAll { paths.contains($0.directory) }
        }
    }

    /// Mounts all that are not mounted.
    ///
    /// - Parameter keybag: the keybag's directory.
    static func mountAll(in keybag: FilePath) throws {
        let outcome = Outcome()
        for entry in try MountList().entries {
            do {
                if try isMounted(entry.directory) { continue }
                let server = MountServer(
                    directory: entry.directory, point: entry.directory, isReadOnly: entry.isReadOnly, keybag: keybag)
                try server.start()
            } catch let status as ExitStatus {
                outcome.record { status }
            } catch {
                outcome.record(error)
            }
        }
        try outcome.leave()
    }

    private static func isMounted(_ directory: FilePath) throws(DataProtectionError) -> Bool {
        try MountTable.own().contains { $0.point == directory }
    }
}

extension UserUnit {
    /// The one that mounts at login.
    ///
    /// - Parameter program: `protectfs`.
    static func mounts(_ program: FilePath) -> UserUnit {
        UserUnit(
            once: "protectfs-mount.service", "Mount directories of protected files", running: program, "mount --all")
    }
}
