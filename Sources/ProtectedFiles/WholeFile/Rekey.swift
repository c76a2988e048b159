import DurableFiles
import Keybags
public import ProtectionKeys
public import SystemPackage

extension Keybag {
    /// Encrypts a file again under a new file key: a holder of the old file key, or of the old class key, can no longer open it.
    ///
    /// It becomes another file under the same name. At every moment it is wholly old or wholly new. Mode, owner, times, attributes, ACL, holes and
    /// the verdict of origin stay. Open handles keep the old file, and read it until they are closed. The file system frees its blocks, but flash
    /// memory and snapshots may keep them.
    /// - Parameters:
    ///   - path: a regular file with one name; a link is not followed.
    ///   - protectionClass: the class that it has afterwards.
    ///   - progress: called with the number of bytes done.
    /// - Throws: `locked` unless the class keys that open the old file and wrap the new one are here; `busy` if somebody
    ///   writes to it, `hasHardLinks`, `notRegularFile`, `notProtected`, `damaged`, `system`. The file is as it was then.
    public func rekey(
        fileAt path: FilePath, as protectionClass: ProtectionClass, progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) {
        try rekey(fileAt: path, as: Optional(protectionClass), progress: progress)
    }

    /// Encrypts a file anew as ``rekey(fileAt:as:progress:)-(FilePath,_,_)``, in the class that it has.
    public func rekey(
        fileAt path: FilePath, progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) {
        try rekey(fileAt: path, as: Optional.none, progress: progress)
    }

    /// - Parameters:
    ///   - protectionClass: nil: the one that it has.
    ///   - allowsWeaker: false: a class that is weaker than the one that it has is the error `wouldWeaken`. The two are compared on the
    ///     file that is replaced, which nobody else can open for writing meanwhile.
    @_disfavoredOverload
    package func rekey(
        fileAt path: FilePath, as protectionClass: ProtectionClass?, allowsWeaker: Bool = true,
        progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) {
        let source = try ConversionSource(path)
        try source.file.requireOneOfOurs()
        try source.hold()
        guard try source.file.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(path) }
        let open = OpenFile(source.file, keybag: self, isWritable: false)
        let (state, origin) = try open.judgedState(.open)
        let size = state.record.size
        let head = state.heads.head
        if !allowsWeaker {
            try protectionClass?.requireNotWeaker(than: head.wrap.classKey.protectionClass, path)
        }
        let new = try NewFile(
            source.entry, as: protectionClass ?? head.wrap.classKey.protectionClass, layout: state.layout, keybag: self,
            carrying: origin)
        let holes = state.holes(of: state.layout)
        let count = try new.append(expecting: size, leavingOut: holes) { buffer, offset throws(DataProtectionError) in
            try open.read(into: buffer, at: offset)
        } goOn: { done throws(DataProtectionError) in
            try source.requireLease()
            progress(Int64(done))
            return true
        }
        guard count == size else { throw .busy(path) }
        try new.finish(looksOf: source.file)
        try open.keepForeignBytes(.read)
        try new.replace(source) { true }
    }
}

extension FileState {
    /// The zeros that take no room from `offset` on, where a chunk begins; nil if there are none.
    package func hole(at offset: UInt64) -> Range<UInt64>? {
        let index = layout.index(of: offset)
        guard offset % UInt64(layout.chunkSize) == 0, let run = record.holes.runs.first(where: { $0.contains(index) })
        else { return nil }
        return offset..<min(run.upperBound * UInt64(layout.chunkSize), record.size)
    }

    /// How many bytes there are before the next hole, or the end.
    package func bytesToNextHole(from offset: UInt64) -> UInt64 {
        let next = record.holes.runs.first { $0.lowerBound > layout.index(of: offset) }
        return min(next.map { $0.lowerBound * UInt64(layout.chunkSize) } ?? record.size, record.size) - offset
    }
}
