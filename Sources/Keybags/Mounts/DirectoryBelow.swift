import Dispatch
import DurableFiles
import Glibc
import POSIXThreads
import ProtectionKeys
import Synchronization
import SystemPackage

/// The directory with the stored files of a mount, which its server hands to other programs of the same user: over its own directory a mount hides
/// it, and a program that found the plaintext there would encrypt it a second time.
///
/// A socket of unix(7) in the abstract namespace. Its name is the source of the mount in /proc/self/mountinfo, and random: another user cannot have
/// taken it. Each side checks the user of its peer. A client that connects gets one message: a byte that says whether the mount is over the directory
/// itself, and the directory.
package enum DirectoryBelow {
    /// The mount is over the directory itself.
    fileprivate static let isOver = UInt8(ascii: "o")
    /// It is elsewhere.
    fileprivate static let isBeside = UInt8(ascii: "b")
    /// How long to wait for an answer, in seconds.
    private static let patience = 3

    /// Asks the server of a mount of this user.
    ///
    /// - Returns: the directory, by its descriptor, and whether the mount is over it.
    /// - Throws: `mountUnanswered`.
    static func ask(
        _ mount: MountTable.Mount
    ) throws(DataProtectionError) -> (directory: LowerDirectory, isOver: Bool) {
        do throws(Errno) {
            let socket = try AbstractSocket(mount.source)
            try socket.connect(patience: patience)
            guard socket.peer == geteuid() else { throw .permissionDenied }
            let (mark, descriptor) = try socket.receive()
            let directory = LowerDirectory(FilePath("/proc/self/fd/\(descriptor)"), descriptor: descriptor)
            guard mark == isOver || mark == isBeside,
                let status = try? directory.status(), status.st_mode & S_IFMT == S_IFDIR,
                MountTable.device(UInt64(status.st_dev)) != mount.device
            else { throw .badMessage }
            return (directory, mark == isOver)
        } catch {
            throw .because(KeybagFailure.mountUnanswered(mount.point, error))
        }
    }
}

/// The server's side: hands out its directory until it ends.
package final class DirectoryBelowListener: Sendable {
    /// What its thread knows. It keeps this, and not the listener itself.
    private struct Served {
        let socket: AbstractSocket
        let directory: LowerDirectory
        let mark: UInt8
    }
    private let socket: AbstractSocket
    private let served: Box
    private final class Box: Sendable {
        let value = Mutex<Served?>(nil)
        let hasBegun = DispatchSemaphore(value: 0)
    }

    /// What the mount is to have as its source: `protectfs-` and 64 random bits in hexadecimal.
    package let name: String

    /// Makes the socket, and the thread that will answer. Until ``begin(_:isOver:)`` callers wait.
    ///
    /// - Throws: why the system makes none.
    package init() throws(Errno) {
        served = Box()
        guard let number = try? Randomness.epoch() else { throw .ioError }
        name = "protectfs-" + String(number, radix: 16)
        socket = try AbstractSocket(name)
        try socket.listen()
        try answer()
    }

    /// The same with the socket of a server that is dead. Callers may have waited in it.
    ///
    /// - Parameter descriptor: is closed when this goes.
    package init(socket descriptor: Int32) throws(Errno) {
        (socket, name, served) = (AbstractSocket(descriptor: descriptor), "", Box())
        try answer()
    }

    /// The socket.
    package var descriptor: Int32 { socket.descriptor }

    private func answer() throws(Errno) {
        let box = served
        do throws(POSIXThread.Refusal) {
            try POSIXThread.detach(blocksSignals: true) {
                box.hasBegun.wait()
                while let served = box.value.withLock({ $0 }), let caller = served.socket.accept() {
                    guard caller.peer == geteuid() else { continue }
                    caller.send(served.mark, served.directory.descriptor)
                }
            }
        } catch { throw Errno(rawValue: error.code) }
    }

    /// Hands out `directory` from now on.
    ///
    /// - Parameter isOver: whether the mount is over the directory itself.
    package func begin(_ directory: LowerDirectory, isOver: Bool) {
        let mark = isOver ? DirectoryBelow.isOver : DirectoryBelow.isBeside
        served.value.withLock { $0 = Served(socket: socket, directory: directory, mark: mark) }
        served.hasBegun.signal()
    }

    /// The server ends.
    package func end() {
        served.value.withLock { served in
            served?.socket.stop()
            served = nil
        }
        served.hasBegun.signal()
    }

    deinit { end() }
}

/// A socket of packets with a name that goes with it: unix(7), "abstract".
private final class AbstractSocket: Sendable {
    fileprivate let descriptor: Int32
    /// Begins with a zero byte.
    private let name: [UInt8]

    /// - Throws: ENAMETOOLONG beyond the 107 bytes that an address has room for.
    init(_ name: String) throws(Errno) {
        guard name.utf8.count <= 107 else { throw .fileNameTooLong }
        self.name = [0] + Array(name.utf8)
        descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
    }

    fileprivate init(descriptor: Int32) { (self.descriptor, name) = (descriptor, []) }

    deinit { close(descriptor) }

    private func withAddress(_ call: (UnsafePointer<sockaddr>, socklen_t) -> Int32) throws(Errno) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let length = MemoryLayout<sa_family_t>.size + name.count
        let result = withUnsafeBytes(of: &address) {
            call($0.assumingMemoryBound(to: sockaddr.self).baseAddress!, socklen_t(length))
        }
        guard result == 0 else { throw Errno(rawValue: errno) }
    }

    func listen() throws(Errno) {
        try withAddress { bind(descriptor, $0, $1) }
        guard Glibc.listen(descriptor, 16) == 0 else { throw Errno(rawValue: errno) }
    }

    /// - Parameter patience: in seconds, for this and for what is received.
    func connect(patience: Int) throws(Errno) {
        var time = timeval(tv_sec: patience, tv_usec: 0)
        for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &time, socklen_t(MemoryLayout<timeval>.size))
        }
        try withAddress { Glibc.connect(descriptor, $0, $1) }
    }

    /// The next caller; nil after ``stop()``.
    func accept() -> AbstractSocket? {
        while true {
            let caller = Glibc.accept(descriptor, nil, nil)
            if caller >= 0 {
                _ = fcntl(caller, F_SETFD, FD_CLOEXEC)  // accept4(2) is hidden from Swift
                return AbstractSocket(descriptor: caller)
            }
            switch errno {
            case EINTR, ECONNABORTED: continue
            case EMFILE, ENFILE, ENOMEM, ENOBUFS: usleep(100_000)
            default: return nil
            }
        }
    }

    func stop() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// The effective uid of the peer; nil if unknown. SO_PEERCRED.
    var peer: uid_t? {
        var credentials: (pid: pid_t, uid: uid_t, gid: gid_t) = (0, 0, 0)
        var length = socklen_t(12)
        guard getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 else { return nil }
        return credentials.uid
    }

    // MARK: a byte and a descriptor, cmsg(3)

    /// SCM_RIGHTS, an enumerator of C that has no name in Swift.
    private static let rights: Int32 = 1
    /// The header of SCM_RIGHTS with one descriptor, and the room that it takes.
    private static let (controlLength, controlRoom) = (MemoryLayout<cmsghdr>.size + 4, MemoryLayout<cmsghdr>.size + 8)

    private func withMessage(
        _ byte: inout UInt8, _ control: UnsafeMutableRawBufferPointer, _ call: (inout msghdr) -> Int
    ) throws(Errno) {
        let count = withUnsafeMutablePointer(to: &byte) { byte in
            var piece = iovec(iov_base: byte, iov_len: 1)
            return withUnsafeMutablePointer(to: &piece) { piece in
                var message = msghdr()
                (message.msg_iov, message.msg_iovlen) = (piece, 1)
                (message.msg_control, message.msg_controllen) = (control.baseAddress, control.count)
                return call(&message)
            }
        }
        guard count >= 0 else { throw Errno(rawValue: errno) }
        guard count == 1 else { throw .connectionReset }
    }

    /// Errors are ignored here: the peer that waits for the byte sees them.
    func send(_ byte: UInt8, _ sent: Int32) {
        var byte = byte
        let control = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.controlRoom, alignment: 8)
        defer { control.deallocate() }
        control.initializeMemory(as: UInt8.self, repeating: 0)
        var header = cmsghdr()
        (header.cmsg_len, header.cmsg_level, header.cmsg_type) = (Self.controlLength, SOL_SOCKET, Self.rights)
        control.storeBytes(of: header, as: cmsghdr.self)
        control.storeBytes(of: sent, toByteOffset: MemoryLayout<cmsghdr>.size, as: Int32.self)
        try? withMessage(&byte, control) { sendmsg(descriptor, &$0, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)) }
    }

    func receive() throws(Errno) -> (UInt8, descriptor: Int32) {
        var byte: UInt8 = 0
        let control = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.controlRoom, alignment: 8)
        defer { control.deallocate() }
        control.initializeMemory(as: UInt8.self, repeating: 0)
        var length = 0
        try withMessage(&byte, control) { message in
            defer { length = message.msg_controllen }
            return recvmsg(descriptor, &message, Int32(MSG_CMSG_CLOEXEC))
        }
        let header = control.load(as: cmsghdr.self)
        guard length >= Self.controlLength, header.cmsg_level == SOL_SOCKET, header.cmsg_type == Self.rights else {
            throw .badMessage
        }
        // There is room for two of them.
        let begin = MemoryLayout<cmsghdr>.size
        let descriptors = stride(from: begin, to: min(length, Int(header.cmsg_len)), by: 4).map {
            control.load(fromByteOffset: $0, as: Int32.self)
        }
        guard descriptors.count == 1 else {
            for descriptor in descriptors { close(descriptor) }
            throw .badMessage
        }
        return (byte, descriptors[0])
    }
}
