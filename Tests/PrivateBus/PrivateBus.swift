import Foundation
import Synchronization

/// A system bus with a mock logind (python-dbusmock), and a session bus, in a directory of their own.
///
/// Nothing of it is known to the system: only who is given ``environment`` or the addresses finds it. Gone with this object.
public final class PrivateBus: Sendable {
    /// The socket of the system bus, as D-Bus writes addresses.
    public let systemAddress: String
    /// The same of the session bus.
    public let sessionAddress: String

    private struct Stage {
        let process: Process
        let commands: FileHandle
        let answers: FileHandle
    }
    private let stage: Mutex<Stage>
    private let directory: String

    /// What the stage could not do.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// What may be there.
    public struct Parts: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        public static let systemBus = Parts(rawValue: 1)
        public static let sessionBus = Parts(rawValue: 2)
        public static let logind = Parts(rawValue: 4)
        public static let all: Parts = [.systemBus, .sessionBus, .logind]
    }

    /// Starts the parts.
    public init(_ parts: Parts = .all) throws {
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/protectfs-bus-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(description: "mkdtemp: \(errno)") }
        let directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        self.directory = directory
        chmod(directory, 0o755)  // a test may be another user, too
        systemAddress = "unix:path=\(directory)/system"
        sessionAddress = "unix:path=\(directory)/session"
        let process = Process()
        // The system's own: the modules that it needs are not for another one.
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = ["-c", String(decoding: PackageResources.stage_py, as: UTF8.self), directory]
        process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C"]
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        stage = Mutex(
            Stage(process: process, commands: input.fileHandleForWriting, answers: output.fileHandleForReading))
        if parts.contains(.systemBus) { try tell("start-bus", "system") }
        if parts.contains(.sessionBus) { try tell("start-bus", "session") }
        if parts.contains(.logind) { try tell("start-logind") }
    }

    deinit {
        stage.withLock { stage in
            try? stage.commands.close()
            stage.process.waitUntilExit()
        }
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// What a process needs to find these buses and no other ones.
    public var environment: [String: String] {
        ["DBUS_SYSTEM_BUS_ADDRESS": systemAddress, "DBUS_SESSION_BUS_ADDRESS": sessionAddress]
    }

    // MARK: what logind does

    /// Adds a session of a user.
    public func addSession(_ name: String, uid: uid_t = getuid()) throws { try tell("add", name, Int(uid)) }
    /// Ends a session.
    public func removeSession(_ name: String) throws { try tell("remove", name) }
    /// logind asks the session's screen to lock.
    public func lock(_ session: String) throws { try tell("lock", session) }
    /// The same; says when, in nanoseconds of CLOCK_MONOTONIC.
    public func lockTimed(_ session: String) throws -> UInt64 {
        try (tell("lock-timed", session) as? NSNumber)?.uint64Value ?? 0
    }
    /// logind asks it to unlock.
    public func unlock(_ session: String) throws { try tell("unlock", session) }
    /// The desktop says whether it is locked (LockedHint) or idle (IdleHint).
    public func setHint(_ name: String, _ value: Bool, of session: String) throws {
        try tell("property", session, name, value)
    }
    /// Another property of a session.
    public func setProperty(_ name: String, _ value: String, of session: String) throws {
        try tell("property", session, name, value)
    }
    /// The machine is about to sleep, or has woken up.
    public func prepareForSleep(_ begins: Bool) throws { try tell("sleep", begins) }
    /// What holds up sleep: what, who, why, mode.
    public func inhibitors() throws -> [[String]] { try tell("inhibitors") as? [[String]] ?? [] }

    // MARK: what others do

    /// A signal of somebody who owns no name; to one process only, whatever that listens to, if `pid` is given.
    public func send(
        _ member: String, of interface: String, at path: String, _ value: Bool? = nil, bus: String, to pid: pid_t? = nil
    ) throws {
        try tell("send", bus, path, interface, member, value ?? NSNull(), pid.map { Int($0) } ?? NSNull())
    }

    /// A screensaver comes up or goes.
    public func screensaver(_ isActive: Bool, interface: String = "org.freedesktop.ScreenSaver") throws {
        try send("ActiveChanged", of: interface, at: "/ScreenSaver", isActive, bus: "session")
    }

    /// Ends a part: "system" and "session" are buses, "logind" is on the former.
    public func stop(_ part: String) throws { try tell("stop", part) }
    /// Starts a bus again, at the same address.
    public func startBus(_ bus: String) throws { try tell("start-bus", bus) }
    /// Starts logind again; it has no sessions.
    public func startLogind() throws { try tell("start-logind") }
    /// Whether a process is connected to a bus.
    public func isOnBus(_ bus: String, _ pid: pid_t) -> Bool {
        (try? tell("is-on-bus", bus, Int(pid))) as? Bool ?? false
    }

    @discardableResult
    private func tell(_ words: Any...) throws -> Any {
        let line = try JSONSerialization.data(withJSONObject: words) + Data("\n".utf8)
        let answer = try stage.withLock { stage in
            try stage.commands.write(contentsOf: line)
            var answer = Data()
            while answer.last != UInt8(ascii: "\n") {
                guard let more = try stage.answers.read(upToCount: 1), !more.isEmpty else {
                    throw Failure(description: "the stage has ended; are dbus and python3-dbusmock installed?")
                }
                answer += more
            }
            return answer
        }
        let object = try JSONSerialization.jsonObject(with: answer) as? [String: Any] ?? [:]
        if let error = object["error"] as? String { throw Failure(description: error) }
        return object["result"] ?? NSNull()
    }
}
