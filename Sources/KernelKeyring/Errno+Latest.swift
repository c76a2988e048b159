import Glibc
import SystemPackage

extension Errno {
    /// What the C call on the line before set. Read at once: anything in between may change it.
    static func latest() -> Errno { Errno(rawValue: errno) }
}
