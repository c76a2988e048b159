import DataProtection
import Glibc

/// `protectfs-agent`: a program of its own, so that `protectfs lock` does not load what D-Bus needs.
enum AgentProgram {
    /// Replaces this process by the agent.
    ///
    /// - Returns: why it could not.
    static func become(_ words: [[UInt8]]) -> Failure { SiblingProgram.become("protectfs-agent", words) }

    /// The agent that locks the keybag in `directory`: its own, or the one of the user's keybag that follows every one.
    ///
    /// - Throws: as ``AgentRecord/running(in:)``.
    static func following(_ directory: FilePath) throws(DataProtectionError) -> AgentRecord? {
        if let own = try AgentRecord.running(in: directory) { return own }
        guard let users = try AgentRecord.running(in: Locations.keybag), users.followsAll else { return nil }
        return users
    }

    /// Once for each user: keys stay where nobody takes them away.
    ///
    /// Call it for a person, who has typed the passcode for keys without an end. A marker says that it was said.
    static func warnIfMissing(for keybag: Keybag) {
        do throws(DataProtectionError) {
            guard isatty(2) == 1, try following(keybag.directory) == nil else { return }
        } catch { return }
        let marker = Locations.deviceKey.removingLastComponent().appending("agent-was-mentioned")
        let descriptor = marker.withPlatformString { open($0, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600) }
        guard descriptor >= 0 else { return }
        close(descriptor)
        StandardError.line(
            .warning,
            "no agent runs: the keys stay until protectfs lock or a restart of the machine, after a logout too")
        StandardError.line(.hint, remedy(hasSystemd: UserUnit.isSystemdRunning, hasBus: hasBus))
    }

    /// Whether there is a system bus, without which an agent cannot hear of sessions.
    static var hasBus: Bool {
        getenv("DBUS_SYSTEM_BUS_ADDRESS") != nil || access("/run/dbus/system_bus_socket", F_OK) == 0
            || access("/var/run/dbus/system_bus_socket", F_OK) == 0
    }

    /// What evicts the keys of somebody who has left, on a machine with these programs.
    ///
    /// - Parameters:
    ///   - hasSystemd: whether systemd can start an agent.
    ///   - hasBus: whether an agent that is started otherwise hears of sessions.
    ///   - option: names the keybag behind a verb.
    static func remedy(hasSystemd: Bool, hasBus: Bool, option: String = "") -> String {
        let limit = "limit each unlock: protectfs unlock\(option) --for 2h"
        if hasSystemd { return "lock with the screen and at logout: protectfs agent install; or \(limit)" }
        if hasBus { return "lock with the screen and at logout: setsid -f protectfs agent run\(option); or \(limit)" }
        return "\(limit); or lock at logout, by the line protectfs lock\(option) in ~/.bash_logout"
    }
}
