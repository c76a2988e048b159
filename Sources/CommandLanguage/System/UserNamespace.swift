import DataProtection
import Glibc

/// Other user namespaces, user_namespaces(7).
enum UserNamespace {
    /// Where one of `namespaces` is, and the words that go before a command there: `there too: nsenter --user … --target 12 `.
    ///
    /// - Parameter namespaces: inode numbers, as in `/proc/PID/ns/user`.
    static func place(_ namespaces: [UInt64]) -> String {
        if namespaces.contains(RingPlaces.initialNamespace) { return "outside this namespace: " }
        return "there too: " + entering(namespaces)
    }

    /// The command that enters the first of `namespaces` that a visible process runs in, with a space behind it; else nothing.
    private static func entering(_ namespaces: [UInt64]) -> String {
        for name in (try? DirectoryListing.components(of: "/proc")) ?? [] {
            var status = stat()
            guard let pid = Int32(name.string), stat("/proc/\(pid)/ns/user", &status) == 0,
                namespaces.contains(UInt64(status.st_ino))
            else { continue }
            return "nsenter --user --preserve-credentials --target \(pid) "
        }
        return ""
    }
}
