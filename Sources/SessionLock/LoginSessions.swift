/// Which sessions of a user there are, and which of them are locked. Decisions only; logind is asked elsewhere.
///
/// Any session's lock locks. An unlock counts only when that session was locked, and no other one is.
struct LoginSessions {
    /// What logind says of a session when it is asked.
    struct Hints: Equatable {
        var isLocked = false
        var isIdle = false
    }

    private struct Session {
        var isLocked: Bool
        /// Nil: never said. Terminals say nothing by themselves and do not keep a desktop from being idle.
        var isIdle: Bool?
    }
    private var sessions: [String: Session] = [:]
    private var isIdle = false

    /// Whether the session at this path is one of this user's.
    func contains(_ path: String) -> Bool { sessions[path] != nil }

    /// Takes the list of all sessions.
    ///
    /// A lock that was missed is made up for. An unlock never is: only a signal of logind unlocks.
    /// - Parameter afterSilence: what was heard before may be old, so that locks are said again.
    mutating func list(_ listed: [String: Hints], afterSilence: Bool = false) -> [SessionEvent] {
        var events: [SessionEvent] = []
        if !sessions.isEmpty, listed.isEmpty { events.append(.ended) }
        for path in Array(sessions.keys) where listed[path] == nil { sessions[path] = nil }
        for (path, hints) in listed {
            let known = sessions[path]
            if hints.isLocked, afterSilence || known?.isLocked != true { events.append(.locked) }
            sessions[path] = Session(
                isLocked: hints.isLocked || known?.isLocked == true, isIdle: hints.isIdle ? true : known?.isIdle)
        }
        return events + idleChange()
    }

    /// A session was locked.
    mutating func lock(_ path: String) -> [SessionEvent] {
        guard sessions[path] != nil else { return [] }
        sessions[path]?.isLocked = true
        return [.locked]
    }

    /// A session was unlocked.
    mutating func unlock(_ path: String) -> [SessionEvent] {
        guard sessions[path]?.isLocked == true else { return [] }
        sessions[path]?.isLocked = false
        return sessions.values.contains { $0.isLocked } ? [] : [.unlocked]
    }

    /// A session became idle, or active.
    mutating func setIdle(_ path: String, _ value: Bool) -> [SessionEvent] {
        sessions[path]?.isIdle = value
        return idleChange()
    }

    private mutating func idleChange() -> [SessionEvent] {
        let said = sessions.values.compactMap(\.isIdle)
        let now = !said.isEmpty && said.allSatisfy { $0 }
        guard now != isIdle else { return [] }
        isIdle = now
        return [now ? .idle : .active]
    }
}
