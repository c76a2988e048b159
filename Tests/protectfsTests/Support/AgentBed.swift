import Foundation
import PrivateBus

@testable import DataProtection

/// A sandbox with an unlocked keybag, buses with one session, and the built agent, which follows them.
final class AgentBed: Sendable {
    let bus: PrivateBus
    let sandbox: CommandSandbox
    /// Opened before anything happens: opening a keybag takes remnants of keys away.
    let keybag: Keybag
    /// The agent that was started first.
    let agent: AgentProcess

    /// - Parameter options: of `protectfs agent run`. Only this keybag is followed: others in the ring are other tests'.
    init(_ options: String..., configuration: String = "", parts: PrivateBus.Parts = .all) throws {
        bus = try PrivateBus(parts)
        sandbox = try CommandSandbox(variables: bus.environment)
        if parts.contains(.logind) { try bus.addSession("1") }
        try sandbox.put(configuration, at: "config/protectfs/config")
        try sandbox.unlock()
        keybag = try Keybag(at: FilePath(sandbox.keybagDirectory))
        agent = try AgentProcess(sandbox, ["--keybag", sandbox.keybagDirectory] + options)
        guard waits(for: { agent.log.contains("follows") || !agent.isRunning }), agent.isRunning else {
            throw CommandSandbox.Unexpected("the agent does not run: \(agent.log)")
        }
    }

    var state: ProtectionState { get throws { try keybag.state() } }

    /// Whether a lock is armed, in the keybag and with the kernel.
    var isArmed: Bool {
        get throws {
            let isNoted = try keybag.status().secondsUntilLock != nil
            let column = ringLine?.split(separator: " ").dropFirst(3).first
            guard isNoted == (column != "perm") else { return false }
            return isNoted
        }
    }

    /// Whether a search for class keys A and B says that there are none, not even a remnant.
    var isEvicted: Bool {
        do throws(Errno) { _ = try keybag.ring.unlocked.find() } catch { return error.rawValue == ENOKEY }
        return false
    }

    /// The line of class keys A and B in /proc/keys: `serial flags usage expiry …`; a remnant is there too.
    var ringLine: String? {
        let text = (try? String(contentsOfFile: "/proc/keys", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map(String.init).first { $0.contains("protectfs:\(keybag.uuid):1:") }
    }

    /// Waits until it is in this state, and says in which it is.
    func becomes(_ expected: ProtectionState) throws -> ProtectionState {
        _ = try waits(for: { try state == expected })
        return try state
    }
}

/// `protectfs agent run`, whose standard error is kept.
final class AgentProcess: @unchecked Sendable {  // Process is thread-safe but does not say so
    private let process: Process
    private let errors: String

    init(_ sandbox: CommandSandbox, _ options: [String]) throws {
        errors = sandbox.path("agent-\(UUID().uuidString).log")
        _ = FileManager.default.createFile(atPath: errors, contents: nil)
        process = sandbox.start(
            CommandSandbox.executable, ["agent", "run"] + options, input: FileHandle.nullDevice)
        process.standardError = FileHandle(forWritingAtPath: errors)!
        try process.run()
    }

    deinit {
        kill(SIGKILL)
        process.waitUntilExit()
    }

    var pid: pid_t { process.processIdentifier }
    var isRunning: Bool { process.isRunning }
    /// What it has said so far.
    var log: String { (try? String(contentsOfFile: errors, encoding: .utf8)) ?? "" }

    func kill(_ signal: Int32) { if isRunning { _ = Glibc.kill(pid, signal) } }

    /// Waits for the end; the exit status, or the signal that ended it.
    func status() -> Int32 {
        process.waitUntilExit()
        return process.terminationStatus
    }
}
