import Foundation

/// What Tests/MemoryScan/processes.py finds in processes that use a sandbox's keybag.
struct MemorySearch: Decodable {
    /// In one process: keys, and where each was.
    struct Found: Decodable {
        let skipped: String?
        let bytes: Int?
        let unreadable: [String]?
        let planted: [String: [String]]?
        let found: [String: [String]]?
    }
    let names: [String]
    let texts: [String]
    let processes: [String: Found]

    /// Nil where memory cannot be searched, which is printed with the name of the test.
    init?(_ test: String, _ sandbox: CommandSandbox, _ pids: [pid_t], options: [String] = []) throws {
        let script = Checkout.root.appendingPathComponent("Tests/MemoryScan/processes.py").path
        let arguments = [
            "sh", script, "--keybag", sandbox.keybagDirectory, "--device-key",
            sandbox.path("state/protectfs/device-key"), "--files", CrowdInSandbox.directory(sandbox),
        ]
        let scanned = try sandbox.shell(
            "exec python3 -B \"$@\"", arguments + options + pids.map { "\($0)" },
            input: Data("\(CommandSandbox.passcode)\n".utf8))
        guard scanned.status == 0 else {
            print("\(test) skipped: \(scanned.errors.suffix(300))")
            return nil
        }
        self = try JSONDecoder().decode(Self.self, from: scanned.output)
        if let reason = processes.values.compactMap(\.skipped).first {
            print("\(test) skipped: \(reason)")
            return nil
        }
    }

    subscript(pid: pid_t) -> Found? { processes["\(pid)"] }
}
