import CEventFiles
import Glibc
import SystemPackage

/// The one door to inotify(7): becomes readable when something gets a new name or other attributes in a watched directory, or it goes itself.
struct DirectoryWatch: ~Copyable {
    /// What has happened in a watched directory, or to it.
    struct Event {
        /// As ``DirectoryWatch/add(_:)`` has called the directory.
        let watch: Int32
        fileprivate let mask: UInt32
        /// What came or went; empty if it was the directory itself.
        let name: [UInt8]

        /// Whether events were lost.
        var isOverflow: Bool { mask & UInt32(IN_Q_OVERFLOW) != 0 }
        /// Whether the directory is not where it was.
        var isEnd: Bool { mask & UInt32(IN_MOVE_SELF | IN_DELETE_SELF | IN_IGNORED | IN_UNMOUNT) != 0 }
        /// Whether something is there now under that name, complete, or nothing any more; or has other times, as a bell that cannot be replaced.
        var isPublication: Bool { mask & UInt32(IN_MOVED_TO | IN_DELETE | IN_ATTRIB) != 0 }
    }

    /// To wait for.
    let descriptor: Int32

    /// inotify_init1(2).
    ///
    /// - Throws: `EMFILE`: this user has as many as the kernel allows (fs.inotify.max_user_instances).
    init() throws(Errno) {
        descriptor = inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
    }

    deinit { close(descriptor) }

    /// Watches the names in a directory, and whether it stays where it is; inotify_add_watch(2).
    ///
    /// - Returns: what inotify calls it: the same for every name of the directory.
    /// - Throws: `ENOSPC`: this user watches as much as the kernel allows (fs.inotify.max_user_watches).
    borrowing func add(_ directory: FilePath) throws(Errno) -> Int32 {
        try add(directory, IN_MOVED_TO | IN_DELETE | IN_ATTRIB | IN_DONT_FOLLOW)
    }

    /// Only whether the directory stays where it is, and which names come and go in it. inotify does not report IN_DELETE_SELF of a directory while
    /// a file in it is open, so that its end is seen only from the one that it is in.
    borrowing func addPlace(of directory: FilePath) throws(Errno) -> Int32 {
        try add(directory, IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
    }

    private borrowing func add(_ directory: FilePath, _ what: Int32) throws(Errno) -> Int32 {
        // A directory can be watched for both reasons.
        let mask = UInt32(what | IN_MOVE_SELF | IN_DELETE_SELF | IN_MASK_ADD) | UInt32(IN_ONLYDIR)
        let result = directory.withPlatformString { inotify_add_watch(descriptor, $0, mask) }
        guard result >= 0 else { throw Errno(rawValue: errno) }
        return result
    }

    /// Watches it no more; inotify_rm_watch(2).
    borrowing func remove(_ watch: Int32) { _ = inotify_rm_watch(descriptor, watch) }

    /// Takes everything that is to be read.
    borrowing func drain() -> [Event] {
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: MemoryLayout<inotify_event>.alignment) { buffer in
            var events: [Event] = []
            while true {
                let count = Glibc.read(descriptor, buffer.baseAddress!, buffer.count)
                guard count > 0 else { return events }
                var offset = 0
                while offset + Self.headLength <= count {
                    let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
                    let name = UnsafeRawBufferPointer(rebasing: buffer[(offset + Self.headLength)..<count])
                        .prefix(Int(event.len)).prefix { $0 != 0 }
                    events.append(Event(watch: event.wd, mask: event.mask, name: Array(name)))
                    offset += Self.headLength + Int(event.len)
                }
            }
        }
    }

    private static let headLength = MemoryLayout<inotify_event>.size
}
