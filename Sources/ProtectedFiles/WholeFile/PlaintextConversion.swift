import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

/// What a conversion did to one file.
public enum ConversionResult: String, Sendable, Hashable {
    /// It was plaintext and is protected now, or the other way round.
    case converted
    /// It was protected by a weaker class.
    case raised
    /// There was nothing to do.
    case unchanged
}

extension Keybag {
    /// Turns a plaintext file into a protected one in place: wholly old or wholly new, whatever happens.
    ///
    /// Mode, owner, times, extended attributes, ACL and the 32 largest holes stay; other holes take room afterwards. A protected file
    /// of a weaker class is raised; one of the same or a stronger class is left alone, and checked where its class key is here. Old
    /// plaintext blocks may survive on flash storage and in snapshots.
    /// - Parameters:
    ///   - path: the file.
    ///   - protectionClass: the class that it has afterwards, at least.
    ///   - includingDatabases: whether a SQLite database is converted. SQLite cannot open it then. Its `-wal`, `-shm` and `-journal`
    ///     are never converted, and while one of them holds data the database is not converted either.
    ///   - progress: called with the number of bytes done.
    /// - Throws: `ownData` for what protectfs itself needs; `notRegularFile` (links and devices included), `hasHardLinks`, `database`,
    ///   `databaseInUse`, `mangled` for what was a protected file before another program changed it; `otherKey`, `damaged` and `keyLost`
    ///   for a protected file that does not have the class that its head names; `busy` if somebody has the file open for writing or it
    ///   changes meanwhile, `locked`, `tooSparse` or `system` before anything is written if there is not enough room, `system`. The
    ///   original is then as it was.
    @discardableResult
    public func protect(
        _ path: FilePath, as protectionClass: ProtectionClass, includingDatabases: Bool = false,
        progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) -> ConversionResult {
        let source = try ConversionSource(path)
        if try source.isProtected() {
            source.clearUp()
            return try raise(source, to: protectionClass)
        }
        var conversion = Conversion(source)
        conversion.includesDatabases = includingDatabases
        _ = try conversion.seal(as: protectionClass, keybag: self) {
            progress($0)
            return true
        }
        return .converted
    }

    /// Gives a protected file a class that is stronger than its own.
    package func raise(
        _ source: ConversionSource, to protectionClass: ProtectionClass
    ) throws(DataProtectionError) -> ConversionResult {
        let entry = source.entry
        if try isAtLeast(protectionClass, try HeadPair(lookingAt: source.file).head, entry.path) { return .unchanged }
        let file = try source.file.forHeads { () throws(DataProtectionError) in
            try entry.directory.file(entry.name, flags: O_RDWR, path: entry.path)
        }
        return try file.withByteLock(OpenFile.slotLock, .exclusive, waiting: LowerFile.patience) {
            () throws(DataProtectionError) in
            // Somebody may have been faster, or have put another file there, and nothing is ever lowered.
            if try isAtLeast(protectionClass, try HeadPair(of: file).head, entry.path) { return .unchanged }
            try change(file, to: protectionClass)
            return .raised
        }
    }

    /// Turns a protected file into a plaintext one in place. The way back from ``protect(_:as:includingDatabases:progress:)-(FilePath,_,_,_)``.
    ///
    /// Mode, owner and holes stay. A file of another user is refused, because that user could read the plaintext: it may be a
    /// copy of a protected file of yours, and copying takes no key.
    /// - Parameters:
    ///   - path: the file.
    ///   - allowsOtherOwner: whether the file may belong to another user than the effective user of this process.
    ///   - progress: called with the number of bytes done.
    /// - Throws: `ownData` for the key of the keybag's downloads; `locked`, `damaged`, `busy`, `notRegularFile`, `hasHardLinks`, `ownedByAnother`, `system`. The original is then
    ///   as it was.
    @discardableResult
    public func unprotect(
        _ path: FilePath, allowsOtherOwner: Bool = false, progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) -> ConversionResult {
        try unprotect(try ConversionSource(path), allowsOtherOwner: allowsOtherOwner, progress: progress)
    }

    /// The same of a file that was found by its directory.
    package func unprotect(
        _ source: ConversionSource, allowsOtherOwner: Bool, progress: (Int64) -> Void
    ) throws(DataProtectionError) -> ConversionResult {
        let path = source.entry.path
        guard try source.isProtected() else {
            source.clearUp()
            return .unchanged
        }
        // The key of a list of downloads.
        for key in try DownloadsDirectory.protectedFiles(of: self) where try source.file.isNamed(key) {
            throw .because(FileFailure.ownData(path))
        }
        let owner = try source.file.status().st_uid
        guard allowsOtherOwner || owner == geteuid() else {
            throw .because(FileFailure.ownedByAnother(path, uid: owner))
        }
        try source.hold()
        guard try source.file.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(path) }
        let open = OpenFile(source.file, keybag: self, isWritable: false)
        let state = try open.state(.read)
        let size = state.record.size
        let plain = try UnnamedFile(source.entry)
        let inHoles = state.record.holes.chunkCount * UInt64(state.layout.chunkSize)
        try source.entry.directory.requireRoom(for: size - min(size, inHoles), path)
        let buffer = WipedBuffer(piecesOf: size)
        var done: UInt64 = 0
        while done < size {
            if let hole = state.hole(at: done) {
                done = hole.upperBound
            } else {
                let part = buffer.prefix(Int(min(state.bytesToNextHole(from: done), UInt64(buffer.count))))
                let count = try open.read(into: part, at: done)
                guard count > 0 else { throw .busy(path) }
                try plain.file.write(UnsafeRawBufferPointer(rebasing: part[..<count]), at: done)
                done += UInt64(count)
            }
            progress(Int64(done))
            try source.requireLease()
        }
        // A hole at the end was not written.
        if inHoles > 0 { try plain.file.truncate(to: size) }
        try FileAttributes.copy(from: source.file, to: plain.file)
        try plain.file.flushAll()
        try open.keepForeignBytes(.read)
        try plain.replace(source) { true }
        return .converted
    }
}

/// Turns one plaintext file into a protected one in its place.
package struct Conversion {
    package let source: ConversionSource
    package var includesDatabases = false
    /// Asked at the last moment whether the directory is where it belongs.
    package var isInPlace: () throws(DataProtectionError) -> Bool = { () throws(DataProtectionError) in true }

    package init(_ source: ConversionSource) { self.source = source }

    /// - Parameter goOn: called with the number of bytes done; whether to go on.
    /// - Returns: false if it was to stop: the original is as it was.
    /// - Throws: as ``ConversionSource/requireConvertible(includingDatabases:_:)`` and ``ConversionSource/hold()``; `locked`, `system`.
    package func seal(
        as protectionClass: ProtectionClass, keybag: Keybag, goOn: (Int64) -> Bool
    ) throws(DataProtectionError) -> Bool {
        // Before it is held, so that the error says what it is even while a program has it open; and once nobody can change it.
        try source.requireConvertible(includingDatabases: includesDatabases, keybag)
        try source.hold()
        try source.requireConvertible(includingDatabases: includesDatabases, keybag)
        let layout = ChunkLayout.forWholeFile(of: source.size)
        let new = try NewFile(source.entry, as: protectionClass, layout: layout, keybag: keybag)
        let holes = source.isSparse ? try source.file.holes(size: source.size, of: layout) : []
        try source.entry.directory.requireRoom(
            for: source.size, in: layout, leavingOut: holes, of: source.file, copy: source.entry.path)
        let count = try new.append(expecting: source.size, leavingOut: holes) {
            buffer, offset throws(DataProtectionError) in
            try source.file.read(into: buffer, at: offset)
        } goOn: { done throws(DataProtectionError) in
            try source.requireLease()
            return goOn(Int64(done))
        }
        guard count != nil else { return false }
        try new.finish(looksOf: source.file)
        try new.replace(source, where: isInPlace)
        return true
    }
}

extension ChunkLayout {
    /// Files of at least this many bytes that are written whole get 64 KiB chunks.
    package static let wholeFileThreshold = 256 * 1024

    package static func forWholeFile(of size: UInt64) -> ChunkLayout {
        size < UInt64(wholeFileThreshold) ? .small : .large
    }
}
