import CEventFiles
import Glibc
import SystemPackage

/// The one door to inotify(7): becomes readable when something gets a new name in a watched directory, or it goes itself.
package struct DirectoryWatch: ~Copyable {
    /// To wait for.
    package let descriptor: Int32

    /// inotify_init1(2).
    ///
    /// - Throws: `EMFILE`: this user has as many as the kernel allows (fs.inotify.max_user_instances).
    package init() throws(Errno) {
        descriptor = inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
    }

    deinit { close(descriptor) }

    /// Watches the names in a directory, and whether it stays where it is; inotify_add_watch(2).
    ///
    /// - Throws: `ENOSPC`: this user watches as much as the kernel allows (fs.inotify.max_user_watches).
    package borrowing func add(_ directory: FilePath) throws(Errno) {
        try add(directory, UInt32(IN_MOVED_TO | IN_DELETE | IN_MOVE_SELF | IN_DELETE_SELF | IN_DONT_FOLLOW))
    }

    /// Only whether the directory stays where it is, and which names come and go in it.
    package borrowing func addPlace(of directory: FilePath) throws(Errno) {
        let names = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO
        try add(directory, UInt32(names | IN_MOVE_SELF | IN_DELETE_SELF))
    }

    private borrowing func add(_ directory: FilePath, _ mask: UInt32) throws(Errno) {
        let result = directory.withPlatformString { inotify_add_watch(descriptor, $0, mask | UInt32(IN_ONLYDIR)) }
        guard result >= 0 else { throw Errno(rawValue: errno) }
    }

    /// Takes everything that is to be read.
    ///
    /// - Parameter name: of a subdirectory; if one of that name comes or goes, watching has to begin anew too. inotify does not report
    ///   IN_DELETE_SELF of a directory while a file in it is open. Empty: of none.
    /// - Returns: false if a directory is not where it was, so that watching has to begin anew.
    package borrowing func drain(watching name: String = "") -> Bool {
        let gone = UInt32(IN_MOVE_SELF | IN_DELETE_SELF | IN_IGNORED | IN_Q_OVERFLOW | IN_UNMOUNT)
        return withUnsafeTemporaryAllocation(byteCount: 4096, alignment: MemoryLayout<inotify_event>.alignment) {
            buffer in
            var isInPlace = true
            while true {
                let count = Glibc.read(descriptor, buffer.baseAddress!, buffer.count)
                guard count > 0 else { return isInPlace }
                var offset = 0
                while offset + Self.headLength <= count {
                    let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
                    let named = UnsafeRawBufferPointer(rebasing: buffer[(offset + Self.headLength)..<count])
                        .prefix(Int(event.len)).prefix { $0 != 0 }
                    if event.mask & gone != 0 || !named.isEmpty && named.elementsEqual(name.utf8) { isInPlace = false }
                    offset += Self.headLength + Int(event.len)
                }
            }
        }
    }

    private static let headLength = MemoryLayout<inotify_event>.size
}
