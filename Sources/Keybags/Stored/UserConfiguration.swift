import DurableFiles
import Glibc
public import ProtectionKeys
import SystemPackage

/// The user's configuration: `$XDG_CONFIG_HOME/protectfs/config`, lines of `name = value`, `#` begins a comment.
///
///     default-class = complete
///     agent-grace = 10s
///     agent-idle = 15m
///     agent-max = 8h
public struct UserConfiguration: Hashable, Sendable {
    /// The class of new files when nothing nearer says one. `none` counts as class C.
    public package(set) var defaultClass: ProtectionClass?
    /// How long after the screen was locked the agent locks.
    public package(set) var agentGrace: Duration?
    /// How long after the desktop takes the user for absent it locks.
    public package(set) var agentIdle: Duration?
    /// How long after an unlock it locks whatever happens.
    public package(set) var agentMax: Duration?

    /// Reads the file; without one nothing is configured.
    ///
    /// - Throws: `configuration`, with the line that makes no sense.
    public static func load() throws(DataProtectionError) -> UserConfiguration {
        let path = Locations.configuration
        guard try path.isThere() else { return UserConfiguration() }
        let bytes = try LowerFile(path, flags: O_RDONLY | O_NONBLOCK).bytes(at: 0, count: 65_536)
        return try UserConfiguration(parsing: String(decoding: bytes, as: UTF8.self), at: path)
    }

    package init(parsing text: String, at path: FilePath) throws(DataProtectionError) {
        for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let content = line.prefix { $0 != "#" }.filter { $0 != " " && $0 != "\t" && $0 != "\r" }
            if content.isEmpty { continue }
            let parts = content.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2 else {
                throw .because(KeybagFailure.configuration(path, line: number + 1, reason: "expected NAME = VALUE"))
            }
            do throws(Nonsense) { try set(parts[0], to: parts[1]) } catch {
                throw .because(KeybagFailure.configuration(path, line: number + 1, reason: error.reason))
            }
        }
    }

    private struct Nonsense: Error {
        let reason: String
    }

    private mutating func set(_ name: String, to value: String) throws(Nonsense) {
        switch name {
        case "default-class":
            guard let named = ProtectionClass(name: value) else {
                throw Nonsense(reason: "there is no class \(value)")
            }
            defaultClass = named
        case "agent-grace": agentGrace = try Self.time(value, orZero: true)
        case "agent-idle": agentIdle = try Self.time(value)
        case "agent-max": agentMax = try Self.time(value)
        default: throw Nonsense(reason: "expected default-class, agent-grace, agent-idle or agent-max, not \(name)")
        }
    }

    private static func time(_ text: String, orZero: Bool = false) throws(Nonsense) -> Duration {
        if orZero, text == "0" { return .zero }
        guard let seconds = TimeSpan.seconds(text) else {
            throw Nonsense(reason: "\(text) is no time; 90, 90s, 10m, 2h and 1d are")
        }
        return .seconds(seconds)
    }

    private init() {}
}
