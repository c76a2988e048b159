import FaultServer
import Foundation

/// The built command, an unlocked keybag, and a server whose authority is in `authority.pem`.
struct DownloadSandbox {
    let sandbox: CommandSandbox
    let server: FaultServer

    /// - Parameter variables: more for the environment of its commands.
    init(variables: [String: String] = [:]) throws {
        (sandbox, server) = (try CommandSandbox(variables: variables), try FaultServer())
        try sandbox.unlock()
        try sandbox.put(String(decoding: server.authority, as: UTF8.self), at: "authority.pem")
    }

    /// `protectfs download …`
    func download(_ words: String...) throws -> Finished { try sandbox.run(["download"] + words) }

    /// `protectfs download get` of a path of the server, trusting it.
    func get(_ path: String, _ words: String...) throws -> Finished {
        try sandbox.run(["download", "get", server.url(path).absoluteString, "--only-anchor", "authority.pem"] + words)
    }

    /// `protectfs download list --json`
    func list() throws -> [[String: Any]] { try download("list", "--json").json() as? [[String: Any]] ?? [] }
}
