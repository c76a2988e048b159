import CFuse
import Glibc
import POSIXThreads
import SystemPackage

/// A mount: the connection to the kernel's FUSE driver, fuse(4). The only gateway to libfuse; what is mounted is no business of it.
///
///     let session = try FuseSession(files, at: "/home/ann/open")
///     try session.run(threads: 4)        // returns when it was unmounted
package final class FuseSession: Sendable {
    /// What libfuse's callbacks get at their file system by.
    final class Served: Sendable {
        let files: any FuseFileSystem
        init(_ files: any FuseFileSystem) { self.files = files }
    }

    private let served: Served
    // libfuse's functions on a session may be called from any thread.
    nonisolated(unsafe) private let session: OpaquePointer

    /// Mounts `files` read-only for this user alone, without setuid programs and devices; by fusermount3(1) where the caller is not root.
    ///
    /// - Throws: `Errno.ioError` if libfuse refused; it has printed why to standard error.
    package init(_ files: some FuseFileSystem, at point: FilePath) throws(Errno) {
        let served = Served(files)
        self.served = served
        var operations = FuseOperations.make()
        let words = ["protectfs", "-o", "ro,nosuid,nodev,default_permissions,fsname=protectfs,subtype=protectfs"]
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
        defer { for argument in arguments { free(argument) } }
        let made = arguments.withUnsafeMutableBufferPointer { words in
            var arguments = fuse_args(argc: Int32(words.count), argv: words.baseAddress, allocated: 0)
            defer { fuse_opt_free_args(&arguments) }
            return fuse_session_new(
                &arguments, &operations, MemoryLayout<fuse_lowlevel_ops>.size,
                Unmanaged.passUnretained(served).toOpaque())
        }
        guard let made else { throw .ioError }
        guard point.withPlatformString({ fuse_session_mount(made, $0) }) == 0 else {
            fuse_session_destroy(made)
            throw .ioError
        }
        session = made
    }

    deinit {
        fuse_session_unmount(session)
        fuse_session_destroy(session)
    }

    /// Answers requests on `threads` threads until the file system is unmounted.
    ///
    /// - Throws: the errno of pthread_create(3) if not one thread can be made.
    package func run(threads count: Int) throws(Errno) {
        var threads: [POSIXThread] = []
        for _ in 0..<count {
            do throws(POSIXThread.Refusal) {
                threads.append(try POSIXThread(blocksSignals: true) { [self] in serve() })
            } catch {
                if threads.isEmpty { throw Errno(rawValue: error.code) }
            }
        }
        for thread in threads { thread.join() }
    }

    private func serve() {
        var buffer = fuse_buf()
        defer { free(buffer.mem) }
        while fuse_session_exited(session) == 0 {
            let count = fuse_session_receive_buf(session, &buffer)
            if count == -EINTR { continue }
            guard count > 0 else { return }  // unmounted
            fuse_session_process_buf(session, &buffer)
        }
    }

    /// Makes the kernel drop every cached page of a node. Waits for reads of it that are under way.
    ///
    /// Never call this on a thread that answers requests, nor while holding a lock that an answer needs: it would wait for itself.
    /// - Throws: what the kernel says; a node that it does not have is no error.
    /// - SeeAlso: `fuse_lowlevel_notify_inval_inode` of fuse_lowlevel.h.
    package func dropPages(of node: FuseNode) throws(Errno) {
        let result = fuse_lowlevel_notify_inval_inode(session, node, 0, 0)
        guard result == 0 || result == -ENOENT else { throw Errno(rawValue: -result) }
    }
}
