public import SystemPackage

/// What happens to a user's login sessions.
public enum SessionEvent: Sendable {
    /// A session was locked, as logind says: any one of them. May be said again.
    case locked
    /// The session that was locked was unlocked, as logind says, and no other one is locked.
    case unlocked
    /// A screensaver or screen locker came up. Any program on the session bus can say so.
    case screensaverBegan
    /// It went. This is no proof that anybody is there: the screen may be locked behind it.
    case screensaverEnded
    /// The desktop takes the user for absent, as logind says.
    case idle
    /// And for present again.
    case active
    /// The machine is about to sleep, and does when the inhibitor is released.
    case willSleep(SleepInhibitor)
    /// It woke up, or the sleep came to nothing.
    case woke
    /// The last session of this user has gone.
    case ended
    /// This source is not heard any more, or was not there at the beginning. It is looked for on and on.
    case lost(SessionSource)
    /// This source is heard again, and was asked what had happened meanwhile.
    case back(SessionSource)
}

/// The source of session events.
public enum SessionSource: String, Sendable, Hashable {
    /// systemd-logind, on the system bus. Only it is believed.
    case logind
    /// Screensavers, on the session bus. What they say can only lock.
    case screensaver
}

/// A message bus. D-Bus Specification, "Well-known Message Bus Instances".
public enum Bus: String, Sendable, Hashable {
    /// The machine's.
    case system
    /// The user's.
    case session
}

/// Why sessions cannot be followed.
public enum SessionLockError: Error, Hashable, Sendable {
    /// There is neither a system bus nor a session bus, so that nobody says what happens.
    case noBus(system: Errno, session: Errno)
    /// The system refused a thread or a descriptor.
    case system(Errno)
}
