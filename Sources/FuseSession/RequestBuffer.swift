import Glibc
import SystemPackage

/// Memory for the requests of one thread: page-aligned, in no core dump, not swapped where mlock(2) allows that, and wiped behind each request.
///
/// Requests carry names, and bytes of files where the kernel hands pages back.
final class RequestBuffer {
    let bytes: UnsafeMutableRawBufferPointer
    /// How much was filled, at most, since it was wiped last.
    private var used = 0

    /// - Throws: the errno of mmap(2).
    init(count: Int) throws(Errno) {
        let start = mmap(nil, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let start, start != MAP_FAILED else { throw Errno(rawValue: errno) }
        bytes = UnsafeMutableRawBufferPointer(start: start, count: count)
        madvise(start, count, MADV_DONTDUMP)
        // Beyond RLIMIT_MEMLOCK it is used all the same: then it can be swapped for the time of one request.
        mlock(start, count)
    }

    deinit {
        wipe()
        munmap(bytes.baseAddress, bytes.count)
    }

    /// Takes the next request: read(2).
    ///
    /// - Returns: its length in bytes; nil if there will be no more of them, because the file system was unmounted.
    /// - Throws: any other errno than those of a request that somebody interrupted.
    func receive(from descriptor: Int32) throws(Errno) -> Int? {
        wipe()
        while true {
            let count = read(descriptor, bytes.baseAddress, bytes.count)
            let error = errno
            if count >= 0 {
                used = count
                return count
            }
            switch error {
            case EINTR, EAGAIN, ENOENT: continue
            case ENODEV: return nil
            default: throw Errno(rawValue: error)
            }
        }
    }

    func wipe() {
        if let start = bytes.baseAddress, used > 0 { explicit_bzero(start, used) }
        used = 0
    }
}
