import DurableFiles
import Glibc
import ProtectionFormat
import Synchronization
import SystemPackage

/// The file by which a process says that it has protected files open, or their plaintext: `run/clients/PID.N`. FORMAT.md §2.13.
///
/// Its first byte is locked for as long as the process lives, however that ends: the lock is the truth, the name is for people.
/// Counters are written in place and not mapped: a page that cannot get its block, on a full disk, would end the process.
package struct ClientFile {
    package private(set) var record: ClientRecord
    private let file: LowerFile
    private let identity: stat
    /// What programs that this process starts get; -1: nothing.
    private var inherited: Int32 = -1
    /// Whether the file says what ``record`` does.
    private var isWritten = true

    private static let numbers = Atomic<UInt32>(0)

    /// Where the files of a keybag's clients are.
    package static func directory(of keybag: FilePath) -> FilePath { RunDirectory(of: keybag).clients }

    /// Makes the file of this process.
    ///
    /// - Throws: `system`, for example where the medium is read-only: the process is not reported then.
    package init(inKeybag keybag: FilePath, record: ClientRecord) throws(DataProtectionError) {
        self.record = record
        for _ in 0..<8 {
            let number = Self.numbers.add(1, ordering: .relaxed).newValue
            let path = Self.directory(of: keybag).appending("\(record.pid).\(number)")
            do throws(DataProtectionError) {
                let file = try Self.create(path)
                // A process that sees the file before it is locked takes it for a dead process's.
                guard try file.tryByteLock(0, .exclusive) else { continue }
                let status = try file.status()
                guard status.st_nlink > 0 else { continue }
                try file.write(record.encoded, at: 0)
                (self.file, identity) = (file, status)
                ClientFilesAtExit.add(path)
                return
            } catch .system(_, _, .fileExists) {}  // a process of another PID namespace
        }
        throw .busy(Self.directory(of: keybag))
    }

    private static func create(_ path: FilePath) throws(DataProtectionError) -> LowerFile {
        let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
        do throws(DataProtectionError) { return try LowerFile(path, flags: flags) } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            let directory = path.removingLastComponent()
            try RunDirectory(of: directory.removingLastComponent().removingLastComponent()).make()
            _ = directory.withPlatformString { mkdir($0, 0o700) }  // what fails is seen when the file is made
            return try LowerFile(path, flags: flags)
        }
    }

    /// Whether it has its name still: somebody may have cleared `run`, or moved it away.
    package var isThere: Bool {
        var named = stat()
        return file.path.withPlatformString { lstat($0, &named) } == 0 && named.isSameItem(as: identity)
    }

    /// Says something else. What cannot be written is not said: nobody must be kept from a file by that.
    package mutating func update(_ change: (inout ClientRecord) -> Void) {
        let before = record
        change(&record)
        if isWritten, record == before { return }
        isWritten = (try? file.write(record.encoded, at: 0)) != nil
    }

    /// Names a file in one of the places, or none there.
    package func name(_ path: FilePath?, at slot: Int) {
        // By the name that others know it by.
        let absolute = path.map { path in
            (try? path.isBelowDescriptor ? path.resolvedName() : path.absolute()) ?? StoredPlace.shown(path)
        }
        try? file.write(OpenFileName.encode(absolute?.bytes ?? []), at: UInt64(OpenFileName.offset(of: slot)))
    }

    /// Gives the lock to every program that this process starts, or becomes, too.
    ///
    /// - Parameter lowest: the number of the descriptor is this or a higher one: 100, above the numbers that scripts use, if the
    ///   limit of open files allows it.
    package mutating func passOn(from lowest: Int32) {
        inherited = fcntl(file.descriptor, F_DUPFD, max(lowest, 100))
        if inherited < 0 { inherited = fcntl(file.descriptor, F_DUPFD, lowest) }
    }

    /// Lets go of the file, and takes it away unless a program that this process has started lives and keeps it.
    package mutating func leave() {
        ClientFilesAtExit.remove(file.path)
        if inherited >= 0 { close(inherited) }
        inherited = -1
        try? file.close(keepingLocks: true)
        // The same checks as for the files of dead processes.
        guard let left = try? LowerFile(file.path, flags: O_RDWR | O_NOFOLLOW),
            (try? left.tryByteLock(0, .exclusive)) == true, (try? left.status().isSameItem(as: identity)) == true
        else { return }
        try? AtomicReplace.remove(file.path)
    }

    /// Takes the file away.
    package func remove() {
        ClientFilesAtExit.remove(file.path)
        try? AtomicReplace.remove(file.path)
        try? file.close()
    }
}

/// The files of a process that ends by exit(3) go with it; those of one that is killed go when somebody looks.
private enum ClientFilesAtExit {
    private struct Files {
        var paths: Set<FilePath> = []
        var isWatched = false
    }
    private static let files = Mutex(Files())
    private static let owner = getpid()

    static func add(_ path: FilePath) {
        let isWatched = files.withLock { files in
            files.paths.insert(path)
            defer { files.isWatched = true }
            return files.isWatched
        }
        if isWatched { return }
        _ = owner
        atexit {
            guard getpid() == ClientFilesAtExit.owner else { return }  // a child has not made them
            // Not waited for: a thread that holds the lock may never run again.
            ClientFilesAtExit.files.withLockIfAvailable { for path in $0.paths { try? AtomicReplace.remove(path) } }
        }
    }

    static func remove(_ path: FilePath) { files.withLock { _ = $0.paths.remove(path) } }
}

/// Another process's file, read.
package struct ClientOfKeybag {
    private let file: LowerFile

    /// All processes that live. Files of dead ones are removed; what is none of ours is left alone.
    ///
    /// - Parameter end: as in ``RunDirectory/forEachFile(in:until:_:)``.
    /// - Returns: the processes, and whether these are all.
    package static func all(ofKeybag keybag: FilePath, until end: UInt64 = .max) -> (
        clients: [ClientOfKeybag], areAll: Bool
    ) {
        let run = RunDirectory(of: keybag)
        var clients: [ClientOfKeybag] = []
        let areAll = run.forEachFile(in: run.clients, until: end) { file in
            let client = ClientOfKeybag(file: file)
            if client.isAlive { clients.append(client) } else { client.removeIfDead() }
        }
        return (clients, areAll)
    }

    /// Whether the process lives.
    package var isAlive: Bool { (try? file.isLockedElsewhere(0)) == true }

    /// What it says; nil if that makes no sense.
    package var record: ClientRecord? {
        (try? file.bytes(at: 0, count: ClientRecord.length)).flatMap(ClientRecord.init(decoding:))
    }

    /// The files that it names.
    package var names: [FilePath] {
        let length = OpenFileName.offset(of: OpenFileName.maximumCount)
        return OpenFileName.decodeAll((try? file.bytes(at: 0, count: length)) ?? []).map { FilePath(bytes: $0) }
    }

    private func removeIfDead() {
        // Empty: its maker died, or is just about to lock it and will then make another one.
        guard record != nil || (try? file.length()) == 0, (try? file.tryByteLock(0, .exclusive)) == true else { return }
        try? AtomicReplace.remove(file.path)
    }
}
