import CFuse
import Glibc
import POSIXThreads
import Synchronization
import SystemPackage

/// A mount: the connection to the kernel's FUSE driver, fuse(4). The only gateway to libfuse; what is mounted is no business of it.
///
///     let session = try FuseSession(files, at: "/home/ann/open")
///     try session.run(threads: 4)        // returns when it was unmounted
package final class FuseSession: Sendable {
    /// What libfuse's callbacks get at their file system by.
    final class Served: Sendable {
        let files: any FuseFileSystem
        /// Whether requests of this process get EDEADLK.
        let refusesOwn: Bool
        let record: ConnectionRecord?
        let retrievals = Retrievals()
        let initialReply: InitialReply
        init(_ files: any FuseFileSystem, refusesOwn: Bool, record: ConnectionRecord?, isKnown: Bool) {
            (self.files, self.refusesOwn, self.record) = (files, refusesOwn, record)
            initialReply = InitialReply(isKnown: isKnown)
        }
    }

    private let served: Served
    // libfuse's functions on a session may be called from any thread.
    nonisolated(unsafe) private let session: OpaquePointer

    /// Mounts `files` for this user alone, without setuid programs and devices; by fusermount3(1) where the caller is not root.
    ///
    /// - Parameters:
    ///   - source: what the table of mounts has as its source.
    ///   - isReadOnly: whether the kernel refuses with EROFS what changes something, and does not ask `files`.
    ///   - record: where the requests under way are noted.
    ///   - answersItself: whether this process may use the mount. If not, it gets EDEADLK, because it could wait for its own threads.
    /// - Throws: `Errno.ioError` if libfuse refused; it has printed why to standard error.
    package init(
        _ files: some FuseFileSystem, at point: FilePath, source: String = "protectfs", isReadOnly: Bool = true,
        record: ConnectionRecord? = nil, answersItself: Bool = false
    ) throws(Errno) {
        let served = Served(files, refusesOwn: !answersItself, record: record, isKnown: false)
        self.served = served
        let options = "nosuid,nodev,default_permissions,fsname=\(source),subtype=protectfs"
        let made = try Self.make(served, ["-o", isReadOnly ? "ro,\(options)" : options])
        guard point.withPlatformString({ fuse_session_mount(made, $0) }) == 0 else {
            fuse_session_destroy(made)
            throw .ioError
        }
        guard Self.readsFrom(fuse_session_fd(made), made) else {
            fuse_session_unmount(made)
            fuse_session_destroy(made)
            throw .noMemory
        }
        session = made
    }

    /// Goes on with the connection of a server that is dead: `files` knows what that knew. The mount stays when this goes.
    ///
    /// What the dead server has taken and not answered is asked once more, since Linux 6.9. A change that it may have made already fails then, as
    /// everything that it has taken does on older kernels: with EIO.
    ///
    /// - Parameters:
    ///   - descriptor: is closed when this goes.
    ///   - record: what the dead server has noted.
    /// - Throws: `badMessage` if it has noted too little.
    package init(_ files: some FuseFileSystem, descriptor: Int32, record: ConnectionRecord) throws(Errno) {
        let served = Served(files, refusesOwn: true, record: record, isKnown: true)
        self.served = served
        guard let first = record.firstRequest else { throw .badMessage }
        let made = try Self.make(served, [])
        guard Self.readsFrom(descriptor, made) else {
            fuse_session_destroy(made)
            throw .noMemory
        }
        session = made
        // libfuse begins with the first request, and changes what it reads.
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: first.count, alignment: 8)
        defer { copy.deallocate() }
        copy.copyMemory(from: first)
        process(copy)
        let orphan = OrphanedConnection(descriptor: descriptor, record: record)
        if !orphan.asksAgain() { orphan.refuseTaken(EIO) }
        record.forgetRequests()
    }

    private static func make(_ served: Served, _ options: [String]) throws(Errno) -> OpaquePointer {
        var operations = FuseOperations.make()
        var arguments: [UnsafeMutablePointer<CChar>?] = (["protectfs"] + options).map { strdup($0) }
        defer { for argument in arguments { free(argument) } }
        let made = arguments.withUnsafeMutableBufferPointer { words in
            var arguments = fuse_args(argc: Int32(words.count), argv: words.baseAddress, allocated: 0)
            defer { fuse_opt_free_args(&arguments) }
            return fuse_session_new(
                &arguments, &operations, MemoryLayout<fuse_lowlevel_ops>.size,
                Unmanaged.passUnretained(served).toOpaque())
        }
        guard let made else { throw .ioError }
        return made
    }

    private static func readsFrom(_ descriptor: Int32, _ session: OpaquePointer) -> Bool {
        var channel = InitialReply.channel
        return fuse_session_custom_io(session, &channel, descriptor) == 0
    }

    deinit {
        fuse_session_unmount(session)
        fuse_session_destroy(session)
    }

    /// The connection to the kernel.
    package var descriptor: Int32 { fuse_session_fd(session) }

    /// Answers requests on `threads` threads until the file system is unmounted, or on as many as the system makes: the calling one at least.
    ///
    /// - Throws: the errno of a connection that broke.
    package func run(threads count: Int) throws(Errno) {
        let failure = Failure()
        var threads: [POSIXThread] = []
        for number in 0..<min(count, ConnectionRecord.threadCount) {
            let thread = try? POSIXThread(blocksSignals: true) { [self] in
                do throws(Errno) { try serve(number) } catch { failure.errno.withLock { $0 = error } }
            }
            if let thread { threads.append(thread) }
        }
        if threads.isEmpty { do throws(Errno) { try serve(0) } catch { failure.errno.withLock { $0 = error } } }
        for thread in threads { thread.join() }
        served.retrievals.giveUp()
        if let errno = failure.errno.withLock({ $0 }) { throw errno }
    }

    /// Why a thread ended that was not told to.
    private final class Failure: Sendable {
        let errno = Mutex<Errno?>(nil)
    }

    /// What the kernel says of itself and of the request comes before the bytes of the longest one. In bytes.
    static let requestRoom = FuseOperations.longestTransfer + 4096

    /// libfuse's own loop reads into memory of its own, which nobody wipes.
    ///
    /// - Parameter thread: its number in the record.
    private func serve(_ thread: Int) throws(Errno) {
        let buffer = try RequestBuffer(count: Self.requestRoom)
        while fuse_session_exited(session) == 0 {
            guard let count = try buffer.receive(from: fuse_session_fd(session)) else { return }
            let request = UnsafeMutableRawBufferPointer(rebasing: buffer.bytes[..<count])
            if served.initialReply.read(UnsafeRawBufferPointer(request)) {
                served.record?.noteFirst(UnsafeRawBufferPointer(request))
            }
            guard let header = RequestHeader(request) else { continue }
            served.record?.takes(header.unique, on: thread)
            if header.mayBeDone {
                OrphanedConnection.refuse(header.unique, EIO, on: fuse_session_fd(session))
            } else {
                process(request)
            }
            served.record?.answered(on: thread)
        }
    }

    private func process(_ bytes: UnsafeMutableRawBufferPointer) {
        var request = fuse_buf()
        request.mem = bytes.baseAddress
        request.size = bytes.count
        fuse_session_process_buf(session, &request)
    }

    // MARK: notifications

    // None of these may be called on a thread that answers requests, nor while holding a lock that an answer needs: the kernel would wait
    // for itself.

    /// Makes the kernel drop every cached page of a node. Waits for reads of it that are under way: their bytes go with the others.
    ///
    /// - Throws: what the kernel says; a node that it does not have is no error.
    /// - SeeAlso: `fuse_lowlevel_notify_inval_inode` of fuse_lowlevel.h.
    package func dropPages(of node: FuseNode) throws(Errno) {
        try notified(fuse_lowlevel_notify_inval_inode(session, node, 0, 0))
    }

    /// How many bytes of a node, from its beginning on, are in the kernel's cache without a gap.
    ///
    /// - Parameter limit: to look at so many at most.
    /// - Throws: what the kernel says; `ENODEV` if it was unmounted meanwhile.
    /// - SeeAlso: `fuse_lowlevel_notify_retrieve` of fuse_lowlevel.h.
    package func cachedByteCount(of node: FuseNode, limit: Int) throws(Errno) -> Int {
        let (cookie, retrieval) = served.retrievals.begin()
        let result = fuse_lowlevel_notify_retrieve(
            session, node, min(limit, FuseOperations.longestTransfer), 0, UnsafeMutableRawPointer(bitPattern: cookie))
        if result != 0 { served.retrievals.end(cookie, count: result == -ENOENT ? 0 : nil) }
        guard let count = retrieval.wait() else { throw Errno(rawValue: result == 0 ? ENODEV : -result) }
        return count
    }

    private func notified(_ result: Int32) throws(Errno) {
        guard result == 0 || result == -ENOENT else { throw Errno(rawValue: -result) }
    }
}
