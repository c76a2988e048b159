import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import SystemPackage

/// What an upgrade of a directory leaves as it is unless it is told to include it: programs open these files themselves, and could not
/// use them as ciphertext.
public enum LeftOut: String, CaseIterable, Hashable, Sendable {
    /// SQLite databases. Their `-wal`, `-shm` and `-journal` are left out in any case, and so is a database while one of them holds data.
    case databases
    /// `.git`, `.hg`, `.svn` and `.bzr`, whole, and git repositories without a working tree.
    case versionControl = "version-control"
    /// Files with an execute permission that begin as ELF programs or with `#!`.
    case executables
    /// `NAME.lock` beside a socket `NAME`, or beside a file `NAME`, such as an mbox, if it is empty or holds only a process id; and the
    /// lock files of Dovecot and Thunderbird.
    case lockFiles = "lock-files"
}

extension LeftOut {
    private static let stores: Set<String> = [".git", ".hg", ".svn", ".bzr"]

    /// Whether a directory of this name is a version-control store. The file `.git` of a second working tree says where its store is.
    package static func isStore(_ name: FilePath.Component) -> Bool { stores.contains(name.string) }

    /// Whether it is a git repository without a working tree.
    ///
    /// - SeeAlso: gitrepository-layout(5).
    package static func isBareRepository(_ directory: LowerDirectory) throws(DataProtectionError) -> Bool {
        for (name, kind) in [("HEAD", S_IFREG), ("objects", S_IFDIR), ("refs", S_IFDIR)] {
            let status = try directory.status(of: FilePath.Component(name)!)
            guard let status, status.st_mode & S_IFMT == kind else { return false }
        }
        return true
    }

    /// Nil for a plaintext file that nothing else speaks for.
    ///
    /// - Parameters:
    ///   - database: what it has to do with a database.
    ///   - start: its first bytes, more than 16 if it has so many.
    package init?(
        _ source: ConversionSource, _ database: DatabaseFile?, start: some Collection<UInt8>
    ) throws(DataProtectionError) {
        if database != nil {
            self = .databases
        } else if try Self.isExecutable(source.file, start) {
            self = .executables
        } else if try Self.isLockFile(source.entry, start) {
            self = .lockFiles
        } else {
            return nil
        }
    }

    private static func isExecutable(
        _ file: LowerFile, _ start: some Collection<UInt8>
    ) throws(DataProtectionError) -> Bool {
        guard start.starts(with: [0x7F, 0x45, 0x4C, 0x46]) || start.starts(with: Array("#!".utf8)) else { return false }
        return try file.status().st_mode & 0o111 != 0
    }

    private static func isLockFile(
        _ entry: DirectoryEntry, _ start: some Collection<UInt8>
    ) throws(DataProtectionError) -> Bool {
        let name = entry.name.string
        if [".parentlock", "parent.lock"].contains(name) { return true }
        let suffix = ".lock"
        guard name.hasSuffix(suffix) else { return false }
        if name.hasPrefix("dovecot") { return true }
        let bytes = FilePath(root: nil, [entry.name]).bytes
        guard let locked = FilePath(bytes: bytes.dropLast(suffix.utf8.count)).lastComponent,
            let status = try entry.directory.status(of: locked)
        else { return false }
        // Those of package managers, such as Gemfile.lock, are long.
        let isShort = start.count <= 16 && start.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x20 || $0 == 0x0A }
        return status.st_mode & S_IFMT == S_IFSOCK || status.st_mode & S_IFMT == S_IFREG && isShort
    }
}

extension Set<LeftOut> {
    /// As a note in the queue has it: FORMAT.md §2.8.
    package var sum: UInt8 { reduce(0) { $0 + $1.bit } }

    /// - Returns: nil for a sum in which there is something that this version does not know.
    package init?(sum: UInt8) {
        self = Set(LeftOut.allCases.filter { sum & $0.bit != 0 })
        guard self.sum == sum else { return nil }
    }
}

extension LeftOut {
    fileprivate var bit: UInt8 {
        switch self {
        case .databases: 1
        case .versionControl: 2
        case .executables: 4
        case .lockFiles: 8
        }
    }
}
