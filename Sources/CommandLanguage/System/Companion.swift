/// A verb of `protectfs` that a program beside it performs, so that the others load neither libcurl nor SQLite nor what few people need.
package enum Companion: String, CaseIterable, Sendable {
    case secret, download, conformance

    /// The version of all programs of protectfs.
    package static let version = "0.1.0"

    /// The program's name.
    package var program: String {
        switch self {
        case .secret: "protectfs-secrets"
        case .download: "protectfs-download"
        case .conformance: "protectfs-conformance"
        }
    }

    /// What the verb does, as help says it.
    package var abstract: String {
        switch self {
        case .secret: "Store passwords, keys and identities that can be read only in certain lock states."
        case .download: "Download files that are protected from their first byte, even while locked."
        case .conformance: "Check that a file system supports every operation in every lock state."
        }
    }

    /// What the program parses: its arguments as they would stand behind `protectfs`.
    package func words(_ arguments: [String]) -> [String] {
        switch arguments.first {
        case "help": ["help", rawValue] + arguments.dropFirst()
        case "--experimental-dump-help": arguments
        case let first? where first.hasPrefix("--generate-completion-script"): arguments
        default: [rawValue] + arguments
        }
    }
}
