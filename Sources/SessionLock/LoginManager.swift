import Glibc
import SystemPackage

/// What systemd-logind says of one user's sessions, and of the machine's sleep. org.freedesktop.login1(5).
///
/// A signal counts only if its sender is the unique name that owns logind's name now: a match rule alone would let through
/// what another program on the bus sends to us directly.
final class LoginManager: BusListener {
    static let name = "org.freedesktop.login1"
    private static let manager = "org.freedesktop.login1.Manager"
    private static let session = "org.freedesktop.login1.Session"
    private static let properties = "org.freedesktop.DBus.Properties"
    private static let path = "/org/freedesktop/login1"

    let connection: BusConnection
    private let uid: uid_t
    /// logind's unique name; nil: there is none.
    private var owner: String?
    private var inhibitor: SleepInhibitor?
    /// Outlives a connection: what was known before the bus was lost is still known.
    private var sessions: LoginSessions { didSet { remember(sessions) } }
    private let remember: (LoginSessions) -> Void

    init(
        _ connection: BusConnection, uid: uid_t, known: LoginSessions, remember: @escaping (LoginSessions) -> Void
    ) {
        (self.connection, self.uid, sessions, self.remember) = (connection, uid, known, remember)
    }

    func begin(again: Bool) throws(Errno) -> [SessionEvent] {
        let sender = "type='signal',sender='\(Self.name)'"
        for rule in [
            "\(sender),interface='\(Self.manager)',path='\(Self.path)'",
            "\(sender),interface='\(Self.session)'",
            "\(sender),interface='\(Self.properties)',path_namespace='\(Self.path)/session'",
            "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='\(Self.name)'",
        ] {
            try connection.listen(to: rule)
        }
        owner = try connection.owner(of: Self.name)
        guard owner != nil else { return again ? [] : [.lost(.logind)] }
        return (again ? [.back(.logind)] : []) + (try follow())
    }

    func events(of message: BusMessage) throws(Errno) -> [SessionEvent] {
        if message.isSignal("NameOwnerChanged", of: "org.freedesktop.DBus") {
            guard message.sender == "org.freedesktop.DBus" else { return [] }
            return try ownerChanged(message)
        }
        guard let owner, message.sender == owner else { return [] }
        return try believedEvents(of: message)
    }

    /// Something has changed that logind sends no signal of.
    func listAgain() throws(Errno) -> [SessionEvent] { owner == nil ? [] : sessions.list(try listed()) }

    private func ownerChanged(_ message: BusMessage) throws(Errno) -> [SessionEvent] {
        guard try message.string() == Self.name else { return [] }
        try message.skip("s")
        let new = try message.string()
        owner = new.isEmpty ? nil : new
        inhibitor = nil  // the one that has gone gave it
        return owner == nil ? [.lost(.logind)] : [.back(.logind)] + (try follow())
    }

    private func believedEvents(of message: BusMessage) throws(Errno) -> [SessionEvent] {
        if message.isSignal("PrepareForSleep", of: Self.manager) { return try sleepChanged(begins: message.bool()) }
        if message.isSignal("SessionNew", of: Self.manager) || message.isSignal("SessionRemoved", of: Self.manager) {
            return sessions.list(try listed())
        }
        guard let path = message.path else { return [] }
        let isLock = message.isSignal("Lock", of: Self.session)
        let isUnlock = message.isSignal("Unlock", of: Self.session)
        let isChange = message.isSignal("PropertiesChanged", of: Self.properties)
        guard isLock || isUnlock || isChange else { return [] }
        var events: [SessionEvent] = []
        // It may be so new that we have not heard of it.
        if !sessions.contains(path) { events = sessions.list(try listed()) }
        guard sessions.contains(path) else { return events }
        if isLock { return events + sessions.lock(path) }
        if isUnlock { return events + sessions.unlock(path) }
        guard try message.string() == Self.session else { return events }
        let changed = try message.properties()
        // Desktops that unlock by themselves say it by this hint and send no signal.
        if case .bool(let isLocked) = changed["LockedHint"] {
            events += isLocked ? sessions.lock(path) : sessions.unlock(path)
        }
        // A session that ends, but in which something goes on running, says no more than this.
        if changed["Active"] != nil { events += sessions.list(try listed()) }
        if case .bool(let isIdle) = changed["IdleHint"] { events += sessions.setIdle(path, isIdle) }
        return events
    }

    private func sleepChanged(begins: Bool) throws(Errno) -> [SessionEvent] {
        guard begins else {
            takeInhibitor()
            return [.woke]
        }
        defer { inhibitor = nil }  // the handler of the event has it now
        return [.willSleep(inhibitor ?? SleepInhibitor(descriptor: -1))]
    }

    // MARK: asking logind

    /// From now on nothing is missed; what was before is asked.
    private func follow() throws(Errno) -> [SessionEvent] {
        takeInhibitor()
        return sessions.list(try listed(), afterSilence: true)
    }

    /// If it is refused, events are followed all the same: their handler sees that the sleep is not held up.
    private func takeInhibitor() {
        do throws(Errno) {
            let request = try connection.request(
                "Inhibit", of: Self.manager, at: Self.path, from: Self.name, "sleep", "protectfs",
                "keys are taken out of memory", "delay")
            inhibitor = SleepInhibitor(descriptor: try connection.call(request).descriptor())
        } catch {
            inhibitor = nil
        }
    }

    /// This user's sessions, without those of user managers, and without those that are over but for a process left behind.
    private func listed() throws(Errno) -> [String: LoginSessions.Hints] {
        let request = try connection.request("ListSessions", of: Self.manager, at: Self.path, from: Self.name)
        let reply = try connection.call(request)
        var paths: [String] = []
        try reply.forEachStructure("susso") { () throws(Errno) in
            try reply.skip("s")
            let owner = try reply.uint32()
            try reply.skip("ss")
            let path = try reply.string(type: "o")
            if owner == uid { paths.append(path) }
        }
        var found: [String: LoginSessions.Hints] = [:]
        for path in paths {
            // It may have gone in between.
            guard let properties = try? propertiesOfSession(at: path) else { continue }
            if case .string(let name) = properties["Class"], !name.hasPrefix("user") { continue }
            if properties["State"] == .string("closing") { continue }
            found[path] = LoginSessions.Hints(
                isLocked: properties["LockedHint"] == .bool(true), isIdle: properties["IdleHint"] == .bool(true))
        }
        return found
    }

    private func propertiesOfSession(at path: String) throws(Errno) -> [String: BusMessage.Property] {
        let request = try connection.request("GetAll", of: Self.properties, at: path, from: Self.name, Self.session)
        return try connection.call(request).properties()
    }
}
