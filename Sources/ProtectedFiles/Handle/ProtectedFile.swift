import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
public import ProtectionKeys
import Synchronization
public import SystemPackage

/// An open protected file: random reads and writes, each committed by ``sync()``.
///
/// May be used from many threads; operations on one handle take turns. Any number of handles and processes may read, one
/// may write. Between operations, a handle on a `complete` file keeps nothing that could open it: the first operation after a lock by any process
/// throws *locked*, and after an unlock the same handle works again. A `completeUnlessOpen` handle works until it is closed. Writes are seen by other
/// handles when they are committed.
public final class ProtectedFile: FinishesAtLock, @unchecked Sendable {  // `open` is only touched under `turn`
    /// What a handle is opened for.
    public enum Access: Sendable {
        /// Reads; the file is never changed.
        case readOnly
        /// Reads and writes.
        case readWrite
    }

    /// Where the file is.
    public let path: FilePath
    let open: OpenFile
    private let promise: (any ClosePromise)?
    private let turn = Mutex(false)  // whether the handle is closed
    /// Whether this process's client knows that there is something to commit. Only touched under `turn`.
    private(set) var isNoted = false
    /// How often this handle was written to. Only touched under `turn`.
    private var writes: UInt64 = 0

    package init(_ open: OpenFile, promise: (any ClosePromise)? = nil) {
        path = open.file.path
        self.open = open
        self.promise = promise
    }

    /// Opens a protected file, or creates it, as `open(_:_:create:raiseTo:keybag:requireVerifiedOrigin:)` of the layer above does.
    package static func open(
        _ path: FilePath, _ access: Access = .readOnly, create: ProtectionClass? = nil,
        promising promised: PromisedClass?, keybag: Keybag, requireVerifiedOrigin: Bool = false
    ) throws(DataProtectionError) -> ProtectedFile {
        let file: LowerFile
        do throws(DataProtectionError) {
            file = try LowerFile(regular: path, flags: access == .readWrite ? O_RDWR : O_RDONLY)
        } catch {
            guard let create, access == .readWrite, error.errno == .noSuchFileOrDirectory else { throw error }
            do throws(DataProtectionError) {
                return try Self.create(path, as: create, promising: promised, keybag: keybag)
            } catch .exists {
                return try open(
                    path, access, promising: nil, keybag: keybag, requireVerifiedOrigin: requireVerifiedOrigin)
            }
        }
        let open = OpenFile(file, keybag: keybag, isWritable: access == .readWrite)
        // Opening asks for the key, whatever other handles hold.
        if requireVerifiedOrigin {
            let origin = try open.judgedState(.open).origin
            guard origin == .verified else { throw .because(FileFailure.unverifiedOrigin(path, origin)) }
        } else {
            _ = try open.state(.open)
        }
        return ProtectedFile(open)
    }

    /// Creates a protected file that must not be there yet, as `create(_:as:raiseTo:keybag:)` of the layer above does.
    package static func create(
        _ path: FilePath, as protectionClass: ProtectionClass? = nil, promising promised: PromisedClass?, keybag: Keybag
    ) throws(DataProtectionError) -> ProtectedFile {
        let resolved = try keybag.classForNewFile(at: path, explicit: protectionClass, replaced: nil)
        let new = try NewFile(path, as: resolved, layout: .small, keybag: keybag)
        try new.finish()
        let promise = try new.publish(replacing: false, promising: promised)
        return ProtectedFile(try new.handle(), promise: promise)
    }

    /// Reads up to `buffer.count` bytes from plaintext `offset` on; fewer only at the end of the file.
    public func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(DataProtectionError) -> Int {
        try inTurn(.read) { () throws(DataProtectionError) in
            try open.read(into: buffer, at: try checked(offset))
        }
    }

    /// Writes all of `buffer` at plaintext `offset`. Sealed when this returns; lost in a crash before ``sync()``.
    ///
    /// - Throws: `locked`, `busy` when another handle is writing, `handleFailed` after an earlier error. Of more than 1 MiB
    ///   a part may have been taken.
    public func write(_ buffer: UnsafeRawBufferPointer, at offset: Int64) throws(DataProtectionError) {
        try inTurn(.write) { () throws(DataProtectionError) in
            defer { noteWriting() }
            try open.write(buffer, at: try checked(offset))
        }
    }

    /// Writes all of `buffer` behind the last byte, wherever other processes have moved it by then.
    ///
    /// - Returns: the plaintext offset where it begins.
    /// - Throws: as ``write(_:at:)``.
    @discardableResult
    public func append(_ buffer: UnsafeRawBufferPointer) throws(DataProtectionError) -> Int64 {
        try inTurn(.write) { () throws(DataProtectionError) in
            defer { noteWriting() }
            return Int64(try open.append(buffer))
        }
    }

    /// Makes the file `size` bytes long: cut, or continued with zeros that take no room.
    public func truncate(to size: Int64) throws(DataProtectionError) {
        try inTurn(.truncate) { () throws(DataProtectionError) in
            defer { noteWriting() }
            try open.truncate(to: try checked(size))
        }
    }

    /// Makes `buffer` the contents, as ``truncate(to:)`` and ``write(_:at:)`` would, unless they were longer than `limit` bytes: then false.
    package func replaceContents(
        by buffer: UnsafeRawBufferPointer, ofAtMost limit: UInt64
    ) throws(DataProtectionError) -> Bool {
        try inTurn(.write) { () throws(DataProtectionError) in
            defer { noteWriting() }
            return try open.replaceContents(by: buffer, ofAtMost: limit)
        }
    }

    /// The plaintext size in bytes.
    public func size() throws(DataProtectionError) -> Int64 {
        try inTurn(.read) { () throws(DataProtectionError) in Int64(try open.size()) }
    }

    /// The size that this handle found last, in bytes. Others may have changed it since.
    package var lastSize: Int64 { turn.withLock { _ in Int64(open.content.view?.size ?? 0) } }

    /// Commits what was written: it survives a crash and a power cut when this returns. Needs no key in any state.
    public func sync() throws(DataProtectionError) {
        try inTurn(.write) { () throws(DataProtectionError) in try open.sync() }
    }

    /// Commits and closes. Needs no key in any state. Closing twice is fine.
    public func close() throws(DataProtectionError) {
        try turn.withLock { isClosed throws(DataProtectionError) in
            if isClosed { return }
            isClosed = true
            defer { promise?.perform() }  // what is not raised now stays in the queue
            defer { leave() }
            try open.close()
        }
    }

    /// Has each change logged from now on: see ``FileContent/log``.
    package func logWrites(_ log: @escaping @Sendable (WriteLogEntry) -> Void) {
        turn.withLock { _ in open.content.log = log }
    }

    /// Commits what a process that is dead has logged of this file. Call it before anything else.
    ///
    /// - Returns: false if the file is not in the state that it was in then: it is lost.
    /// - Throws: `busy` while that process is not gone entirely; `locked`.
    package func commit(_ logged: LoggedWrites) throws(DataProtectionError) -> Bool {
        try inTurn(.write) { () throws(DataProtectionError) in try open.commit(logged) }
    }

    /// Becomes the one writer of the file now, not with the first write.
    ///
    /// - Throws: `busy`, `locked`.
    package func beginWriting() throws(DataProtectionError) {
        try inTurn(.write) { () throws(DataProtectionError) in try open.beginWriting(.write) }
    }

    /// Gives up what was written since the last ``sync()``, and goes on.
    package func forgetPending() { turn.withLock { _ in open.discard() } }

    /// The file of the operating system.
    package var lower: LowerFile { open.file }

    /// What tells one version of the contents, as this handle reads them, from any other.
    package struct Version: Equatable, Sendable {
        private let counter: UInt64
        private let writes: UInt64

        fileprivate init(_ counter: UInt64, _ writes: UInt64) { (self.counter, self.writes) = (counter, writes) }
    }

    /// The version that a read would find now. Needs no key while it is the one that this handle found last.
    ///
    /// - Throws: as ``read(into:at:)``.
    package func version() throws(DataProtectionError) -> Version {
        try inTurn(.read) { () throws(DataProtectionError) in
            Version(try open.knownState(.read).record.counter, writes)
        }
    }

    /// How closely the maker of the file is known, as far as it can be checked now.
    public func origin() throws(DataProtectionError) -> OriginMark.Verdict {
        try inTurn(.read) { () throws(DataProtectionError) in
            try KeySession.verdict(of: try open.state(.read).heads.head, open.keybag)
        }
    }

    /// What ``Keybag/verify(_:goOn:)-(FilePath,_)`` finds in heads, records and length, without a look at any chunk: reading tells nothing of it, as all
    /// bytes that are read are right. Appended bytes are found here, and commits that a damaged head makes unreachable.
    ///
    /// - Returns: empty for a file that was closed, and while somebody writes to it.
    /// - Throws: as ``read(into:at:)``; not `locked` while the file is what this handle found last.
    public func findings() throws(DataProtectionError) -> [FileVerification.Finding] {
        try inTurn(.read) { () throws(DataProtectionError) in try open.findings() }
    }

    /// The class of the class key that opened the file. It is authenticated, unlike ``protectionClass()``.
    package func openedClass() throws(DataProtectionError) -> ProtectionClass {
        try inTurn(.read) { () throws(DataProtectionError) in
            try open.knownState(.read).heads.head.wrap.classKey.protectionClass
        }
    }

    /// The 16 bytes that name the file, authenticated, unlike ``fileID(at:)``.
    package func openedID() throws(DataProtectionError) -> [UInt8] {
        try inTurn(.read) { () throws(DataProtectionError) in
            try open.knownState(.read).heads.head.prefix.fileID.bytes
        }
    }

    /// The class that the file has now, as its head says in clear.
    public func protectionClass() throws(DataProtectionError) -> ProtectionClass {
        try inTurn(.read) { () throws(DataProtectionError) in
            try ProtectedFileInfo(path: path, file: open.file).protectionClass
        }
    }

    /// Closes without committing: what was written since the last ``sync()`` is given up.
    public func discard() {
        turn.withLock { isClosed in
            if isClosed { return }
            isClosed = true
            open.discard()
            try? open.close()  // nothing was acknowledged that could be lost
            leave()
            promise?.perform()
        }
    }

    deinit {
        // Best effort for a handle that was forgotten: only a caller of `close()` sees an error of the commit.
        turn.withLock { isClosed in
            if isClosed { return }
            try? open.close()
            leave()
            promise?.perform()
        }
    }

    // MARK: locks

    package func finishAtLock() {
        turn.withLock { isClosed in
            isNoted = false
            // A file that has another class by now goes on, and commits when its program says so.
            guard !isClosed, open.content.view?.pending != nil, open.access.entry?.protectionClass == .complete
            else { return }
            try? open.sync()
        }
    }

    private func noteWriting() {
        writes &+= 1
        // A write that a lock has refused leaves nothing to commit. To be noted for it would mean a commit by that lock, but perhaps later, of
        // writes that come after the next unlock.
        guard !isNoted, let entry = open.access.entry, entry.protectionClass == .complete,
            open.content.view?.pending != nil
        else { return }
        isNoted = true
        entry.client.noteWriting(self)
    }

    /// The handle is closed: no key is left, and nobody counts it.
    private func leave() {
        if isNoted { open.keybag.client.forgetWriting(ObjectIdentifier(self)) }
        open.forgetKeys()
    }

    func inTurn<R>(
        _ operation: AttemptedOperation, _ body: () throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        try turn.withLock { isClosed throws(DataProtectionError) in
            guard !isClosed else { throw .because(FileFailure.notOpen(path, for: operation)) }
            return try body()
        }
    }

    private func checked(_ offset: Int64) throws(DataProtectionError) -> UInt64 {
        guard offset >= 0 else { throw .because(FileFailure.outOfRange(path)) }
        return UInt64(offset)
    }
}
