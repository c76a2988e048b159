import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
public import ProtectionKeys
import Synchronization
public import SystemPackage

/// Writes a protected file from beginning to end, of any size in bounded memory. It appears whole when it is finished, or not at all.
///
/// Bytes are sealed when ``append(_:)`` returns. A class A file goes on as far as its class key stays; ``finish()`` needs none.
public final class ProtectedFileWriter: @unchecked Sendable {  // `new` is only touched under `turn`
    /// Where the file will be.
    public let path: FilePath
    /// The class that it gets.
    public var protectionClass: ProtectionClass { new.protectionClass }
    private let new: NewFile
    private let isReplacing: Bool
    private let promised: PromisedClass?
    /// The file that is replaced, with a shared writer lock: what somebody appends meanwhile would be lost in silence.
    private let old: LowerFile?
    /// What happens if the file that is replaced has a stronger class than this one is going to have.
    private enum IfStronger {
        /// Nothing: a person chose the class.
        case stay
        /// This file gets the stronger class: nobody chose one.
        case raise
        /// `wouldWeaken`; the class that was chosen.
        case refuse(ProtectionClass)
    }
    private let ifStronger: IfStronger
    private let turn = Mutex(false)  // whether the file is finished or given up

    /// Begins a file, as `init(_:as:raiseTo:keybag:replacing:)` of the layer above does.
    ///
    /// - Parameters:
    ///   - size: how many bytes it is going to have; nil: not known.
    ///   - allowsWeaker: false: if a class was given or promised that is weaker than that of the file that is replaced, this or
    ///     ``finish()`` throws `wouldWeaken`.
    package convenience init(
        _ path: FilePath, as protectionClass: ProtectionClass?, promising promised: PromisedClass?, keybag: Keybag,
        replacing: Bool, expecting size: Int?, allowsWeaker: Bool = true
    ) throws(DataProtectionError) {
        try self.init(
            path, as: protectionClass, promising: promised, keybag, replacing: replacing, expecting: size,
            allowsWeaker: allowsWeaker, beginningWith: nil)
    }

    /// Writes a whole file, as `init(_:as:raiseTo:keybag:replacing:)` of the layer above begins it. The keyring is asked once for the file and
    /// its first MiB.
    package static func write(
        _ bytes: UnsafeRawBufferPointer, to path: FilePath, as protectionClass: ProtectionClass?,
        promising promised: PromisedClass?, keybag: Keybag, replacing: Bool
    ) throws(DataProtectionError) {
        let writer = try ProtectedFileWriter(
            path, as: protectionClass, promising: promised, keybag, replacing: replacing, expecting: bytes.count,
            allowsWeaker: true, beginningWith: bytes)
        try writer.finish()
    }

    private init(
        _ path: FilePath, as protectionClass: ProtectionClass?, promising promised: PromisedClass?, _ keybag: Keybag,
        replacing: Bool, expecting size: Int?, allowsWeaker: Bool, beginningWith bytes: UnsafeRawBufferPointer?
    ) throws(DataProtectionError) {
        self.path = path
        isReplacing = replacing
        self.promised = promised
        let wanted = promised?.protectionClass ?? protectionClass
        ifStronger = wanted.map { allowsWeaker ? .stay : .refuse($0) } ?? .raise
        let old = try Self.existing(path)
        if let old, try !old.tryByteLock(OpenFile.writerLock, .shared) { throw .busy(path) }
        self.old = old
        let replaced = try old.map { old throws(DataProtectionError) in try InheritedClass(of: old, keybag) } ?? nil
        if replaced == nil { try old?.requireForeign() }
        if let replaced, case .refuse(let wanted) = ifStronger {
            try wanted.requireNotWeaker(than: replaced.claimed, path)
        }
        let resolved = try keybag.classForNewFile(at: path, explicit: protectionClass, replaced: replaced)
        if let goal = promised?.protectionClass, goal < resolved {
            throw .because(FileFailure.wouldWeaken(path, from: resolved, to: goal))
        }
        let layout = size.map { ChunkLayout.forWholeFile(of: UInt64($0)) } ?? .large
        let entry = try DirectoryEntry(path)
        var made = try NewHead(as: resolved, layout: layout, keybag, path: entry.path)
        if bytes == nil { made.firstKeys = nil }
        new = try NewFile(entry, made.head, made.keys)
        if let old { try FileAttributes.inherit(from: old, to: new.file) }
        if let bytes { try new.append(bytes, made.firstKeys.take()) }
    }

    /// Appends bytes.
    ///
    /// - Throws: `locked` if the class key has gone: what was appended before is kept, and ``finish()`` still works.
    ///   After any other error there is no file: this and ``finish()`` throw `handleFailed` from then on.
    public func append(_ bytes: UnsafeRawBufferPointer) throws(DataProtectionError) {
        try turn.withLock { isOver throws(DataProtectionError) in
            guard !isOver else { throw .because(FileFailure.notOpen(path, for: .write)) }
            try new.append(bytes)
        }
    }

    /// Gives the file its name. When this returns it survives a crash and a power cut. What another program has appended to a file that is
    /// replaced is saved beside it.
    ///
    /// If no class was given, and the file that is replaced has a stronger one by now, this file gets that class too.
    /// - Throws: `busy` if somebody writes to a file that has the name since this one was begun, `exists`, `system`; `locked` if a stronger class
    ///   is needed and its key is not there. There is no new file then, and the other one stays.
    public func finish() throws(DataProtectionError) {
        try finish { () throws(DataProtectionError) in true }
    }

    /// The same, if that is true at the last moment before the file gets its name.
    ///
    /// - Throws: also `busy` if it is not.
    package func finish(
        where isWanted: () throws(DataProtectionError) -> Bool
    ) throws(DataProtectionError) {
        try turn.withLock { isOver throws(DataProtectionError) in
            guard !isOver else { throw .because(FileFailure.notOpen(path, for: .write)) }
            isOver = true
            defer { new.forgetKeys() }
            try new.finish()
            // Another file than at the beginning may have the name by now.
            var replaced = isReplacing ? try ReplacedFile.hold(new.unnamed.entry, new.keybag) : nil
            try keepClass(of: &replaced)
            defer { withExtendedLifetime(replaced) {} }
            guard try isWanted() else { throw .busy(path) }
            try new.publish(replacing: isReplacing, promising: promised)?.perform()
        }
    }

    /// What has the name now may be another file than at the beginning, and that one may have been given another class.
    private func keepClass(of replaced: inout ReplacedFile?) throws(DataProtectionError) {
        if case .stay = ifStronger { return }
        try replaced?.holdClass()
        guard let its = try replaced?.claimedClass() else { return }
        if case .refuse(let wanted) = ifStronger { return try wanted.requireNotWeaker(than: its, path) }
        if its > new.protectionClass { try new.raise(to: its) }
    }

    private static func existing(_ path: FilePath) throws(DataProtectionError) -> LowerFile? {
        do throws(DataProtectionError) {
            return try LowerFile(regular: path, flags: O_RDONLY)
        } catch {
            if case .system(_, _, .noSuchFileOrDirectory) = error { return nil }
            // A file that we may replace but not read: its class cannot be kept, so it must be given.
            throw error
        }
    }
}
