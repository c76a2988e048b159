import Glibc
public import ProtectionKeys
import SystemPackage

/// The user's configuration: `$XDG_CONFIG_HOME/protectfs/config`, lines of `name = value`, `#` begins a comment.
///
///     default-class = complete
public struct UserConfiguration: Hashable, Sendable {
    /// The class of new files when nothing nearer says one.
    public var defaultClass: ProtectionClass?

    /// Reads the file; without one nothing is configured.
    ///
    /// - Throws: `configuration`, with the line that makes no sense.
    public static func load() throws(DataProtectionError) -> UserConfiguration {
        let path = Locations.configuration
        guard OwnDirectory.exists(path) else { return UserConfiguration() }
        let bytes = try LowerFile(path, flags: O_RDONLY | O_NONBLOCK).bytes(at: 0, count: 65_536)
        return try UserConfiguration(parsing: String(decoding: bytes, as: UTF8.self), at: path)
    }

    init(parsing text: String, at path: FilePath) throws(DataProtectionError) {
        for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let content = line.prefix { $0 != "#" }.filter { $0 != " " && $0 != "\t" && $0 != "\r" }
            if content.isEmpty { continue }
            let parts = content.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2, parts[0] == "default-class" else {
                throw .configuration(path, line: number + 1, reason: "expected default-class = CLASS")
            }
            guard let named = ProtectionClass(name: parts[1]) else {
                throw .configuration(path, line: number + 1, reason: "there is no class \(parts[1])")
            }
            defaultClass = named
        }
    }

    private init() {}
}
