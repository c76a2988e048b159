package import DataProtection
import Glibc
package import SystemPackage

/// A program that knows nothing of protectfs, in this process: system calls on the files of a mount. What a program cannot ask of a file system is
/// not applicable.
package final class MountSubject: Subject {
    private let stage: Stage
    private let library: LibrarySubject
    private let program: FilePath
    /// Kept open, so that the stored files can be reached behind a mount over them.
    private let opened: FileDescriptor
    /// The directory with the stored files.
    package let tree: FilePath
    /// Where the mount shows them.
    private let point: FilePath

    /// There is no mount.
    package struct Refused: Error {
        /// Of `protectfs mount`.
        package let status: Int32
        /// What it said.
        package let message: String
    }

    /// Mounts a new directory of the stage's.
    ///
    /// - Parameters:
    ///   - program: as ``CommandSubject`` takes it.
    ///   - isOver: whether over the directory itself, or at another one.
    /// - Throws: ``Refused``.
    package init(_ stage: Stage, program: FilePath, over isOver: Bool) throws {
        let directory = try stage.scratch.makeDirectory("tree")
        point = try isOver ? directory : stage.scratch.makeDirectory("point")
        (self.stage, self.program, library) = (stage, program, LibrarySubject(stage))
        opened = try FileDescriptor.open(directory, .readOnly, options: [.directory, .closeOnExec])
        tree = FilePath("/proc/self/fd/\(opened.rawValue)")
        do { try run("mount", ["--read-write"], [directory] + (isOver ? [] : [point])) } catch {
            guard let refusal = error as? CommandProcess.Refusal else { throw error }
            throw Refused(
                status: refusal.status,
                message: refusal.message.replacing("protectfs: error: ", with: "", maxReplacements: 1))
        }
    }

    deinit {
        try? run("unmount", [], [point])
        try? opened.close()
        for name in Set([point, stage.scratch.path.appending("tree")]) { Scratch.remove(name) }
    }

    private func run(_ verb: String, _ options: [String], _ paths: [FilePath]) throws {
        let words = [program.bytes] + ([verb] + options).map { Array($0.utf8) } + paths.map(\.bytes)
        try CommandProcess(words, environment: CommandSubject.environment(stage)).finish()
    }

    package func enter(_ moment: Moment) throws { try library.enter(moment) }

    package func place(of path: FilePath) -> FilePath {
        var rest = path
        guard rest.removePrefix(tree) else { return path }
        return point.pushing(rest)
    }

    // MARK: by path

    private func open(
        _ path: FilePath, _ mode: FileDescriptor.AccessMode, _ options: FileDescriptor.OpenOptions = []
    ) throws -> FileDescriptor {
        try FileDescriptor.open(
            place(of: path), mode, options: options.union(.closeOnExec),
            permissions: options.contains(.create) ? [.ownerReadWrite] : nil)
    }

    private func change(
        _ path: FilePath, _ options: FileDescriptor.OpenOptions = [], _ body: (FileDescriptor) throws -> Void
    ) throws {
        let file = try open(path, .writeOnly, options)
        // close(2) commits, and its error counts.
        try file.closeAfter { try body(file) }
    }

    /// A program gives no class: the directory does.
    private func letDirectory(of path: FilePath, give protectionClass: ProtectionClass) throws {
        guard protectionClass != .none else { throw NotApplicable("no directory gives its files the class none") }
        try stage.keybag.setProtection(protectionClass, ofItemAt: path.removingLastComponent())
    }

    package func create(_ path: FilePath, as protectionClass: ProtectionClass?, _ bytes: [UInt8]) throws {
        if let protectionClass { try letDirectory(of: path, give: protectionClass) }
        try change(path, [.create, .exclusiveCreate]) { try $0.writeAll(bytes) }
    }

    package func read(_ path: FilePath) throws -> [UInt8] {
        let file = try open(path, .readOnly)
        return try file.closeAfter { try RawFile.bytes(of: file) }
    }

    package func write(_ bytes: [UInt8], to path: FilePath, at offset: Int) throws {
        try change(path) { try $0.writeAll(toAbsoluteOffset: Int64(offset), bytes) }
    }

    package func append(_ bytes: [UInt8], to path: FilePath) throws {
        try change(path, [.append]) { try $0.writeAll(bytes) }
    }

    package func empty(_ path: FilePath, andWrite bytes: [UInt8]) throws {
        try change(path, [.truncate]) { try $0.writeAll(bytes) }
    }

    package func truncate(_ path: FilePath, to size: Int) throws {
        try call(path) { Glibc.truncate($0, off_t(size)) }
    }

    private func call(_ path: FilePath, _ body: (UnsafePointer<CChar>) -> CInt) throws {
        guard place(of: path).withPlatformString(body) == 0 else { throw Errno(rawValue: Glibc.errno) }
    }

    /// As editors save.
    package func replace(_ path: FilePath, by bytes: [UInt8]) throws {
        let own = try protectionClass(of: path)
        let new = path.removingLastComponent().appending("new")
        try create(new, as: own == .none ? nil : own, bytes)
        do {
            try call(new) { old in place(of: path).withPlatformString { Glibc.rename(old, $0) } }
        } catch {
            try? call(new) { unlink($0) }
            throw error
        }
    }

    package func copy(_ source: FilePath, to target: FilePath) throws {
        let bytes = try read(source)
        try create(target, as: try protectionClass(of: source), bytes)
    }

    package func copyCiphertext(_ source: FilePath, to target: FilePath) throws {
        throw NotApplicable("a mount shows no ciphertext")
    }

    package func protect(_ path: FilePath, as protectionClass: ProtectionClass) throws { try refuseVerb() }
    package func unprotect(_ path: FilePath) throws { try refuseVerb() }
    package func rekey(_ path: FilePath) throws { try refuseVerb() }

    private func refuseVerb() throws -> Never { throw NotApplicable("no system call does that: it takes a verb") }

    // MARK: names and facts

    package func size(of path: FilePath) throws -> Int {
        var status = Glibc.stat()
        guard place(of: path).withPlatformString({ lstat($0, &status) }) == 0 else {
            throw Errno(rawValue: Glibc.errno)
        }
        return Int(status.st_size)
    }

    private static let attribute = "user.protectfs.class"

    package func protectionClass(of path: FilePath) throws -> ProtectionClass {
        let value = ExtendedAttributes.get(Self.attribute, of: place(of: path))
        let name = String(decoding: value ?? [], as: UTF8.self)
        guard let found = ProtectionClass(name: name) else { throw Contradiction("the attribute says \(name)") }
        return found
    }

    package func list(_ directory: FilePath) throws -> [(name: String, protectionClass: ProtectionClass?)] {
        try DirectoryListing.names(of: place(of: directory)).map {
            ($0, try protectionClass(of: directory.appending($0)))
        }
    }

    /// As setfattr(1) does.
    package func setClass(_ protectionClass: ProtectionClass, of path: FilePath) throws {
        var status = Glibc.stat()
        let isDirectory = path.withPlatformString { lstat($0, &status) } == 0 && status.st_mode & S_IFMT == S_IFDIR
        if isDirectory, protectionClass == .none {
            throw NotApplicable("no directory gives its files the class none")
        }
        let value = Array("weaker:\(protectionClass.shortName)".utf8)
        try ExtendedAttributes.set(Self.attribute, to: value, of: place(of: path))
    }

    // MARK: secrets

    package func addItem(_ account: String, as protectionClass: ProtectionClass, _ bytes: [UInt8]) throws {
        try refuseItems()
    }
    package func readItem(_ account: String) throws -> [UInt8] { try refuseItems() }
    package func updateItem(_ account: String, _ bytes: [UInt8]) throws { try refuseItems() }

    private func refuseItems() throws -> Never { throw NotApplicable("a mount shows no secrets") }

    // MARK: handles

    package func hold(_ path: FilePath, for purpose: Purpose) throws -> any HeldFile {
        HeldDescriptor(try open(path, purpose == .reading ? .readOnly : .readWrite), isWriting: purpose == .writing)
    }

    package func holdNew(
        _ path: FilePath, as protectionClass: ProtectionClass, _ bytes: [UInt8]
    ) throws -> any HeldFile {
        try letDirectory(of: path, give: protectionClass)
        let held = HeldDescriptor(try open(path, .readWrite, [.create, .exclusiveCreate]), isWriting: true)
        try held.write(bytes, at: 0)
        try held.sync()
        return held
    }

    // MARK: errors

    package func finding(of error: any Error, at moment: Moment, classes: Set<ProtectionClass>) -> Finding? {
        let errno = (error as? Errno) ?? (error as? DataProtectionError)?.errno
        return errno == Errno(rawValue: ENOKEY) ? .locked : errno == .invalidArgument ? .refused : nil
    }
}
