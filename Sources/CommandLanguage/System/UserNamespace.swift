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
        guard let directory = opendir("/proc") else { return "" }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            var status = stat()
            guard let pid = Int32(name), stat("/proc/\(pid)/ns/user", &status) == 0,
                namespaces.contains(UInt64(status.st_ino))
            else { continue }
            return "nsenter --user --preserve-credentials --target \(pid) "
        }
        return ""
    }
}
