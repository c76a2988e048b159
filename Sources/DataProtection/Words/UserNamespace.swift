import DurableFiles
import Glibc
import Keybags
import SystemPackage

/// Other user namespaces, user_namespaces(7).
enum UserNamespace {
    /// Where to type `lock`, so that the keys in one of `namespaces` go: `lock there too: nsenter … --target 12 protectfs lock`.
    ///
    /// - Parameter namespaces: inode numbers, as in `/proc/PID/ns/user`; none: only the kernel knows of the keys.
    static func lockHint(_ namespaces: [UInt64], _ lock: String) -> String {
        if namespaces.contains(RingPlaces.initialNamespace) { return "lock outside this namespace: \(lock)" }
        if namespaces.isEmpty { return "lock there too: \(lock)" }
        if let enter = entering(namespaces) { return "lock there too: \(enter)\(lock)" }
        // Nothing proves that a namespace has ended: a descriptor or a mount can hold it, and its number can be reused.
        return "lock there too: \(lock); no process in it is visible here, "
            + "and if it has ended, locks succeed again after a restart of the machine"
    }

    /// The command that enters the first of `namespaces` that a visible process runs in, with a space behind it.
    private static func entering(_ namespaces: [UInt64]) -> String? {
        for name in (try? DirectoryListing.components(of: "/proc")) ?? [] {
            var status = stat()
            guard let pid = Int32(name.string), stat("/proc/\(pid)/ns/user", &status) == 0,
                namespaces.contains(UInt64(status.st_ino))
            else { continue }
            return "nsenter --user --preserve-credentials --target \(pid) "
        }
        return nil
    }
}
