public import SystemPackage

/// Why it is not certain, after a lock, that no unlock which began before it loads class keys again.
///
/// The order of locks and unlocks is kept by the file `transition` in the keybag's directory: flock(2) of it, and a counter in it that every lock raises.
/// FORMAT.md §2.4.
public enum LockDoubt: Hashable, Sendable {
    /// Another process has kept the flock for a second. It is stopped, or waits for a disk; if it is an unlock, it may load keys when it continues.
    ///
    /// `processes` are their ids, as they are numbered here; none if they cannot be seen, for example from inside a container.
    case held(processes: [Int32])
    /// The file cannot be opened, locked, read or written here. An unlock that is under way may still be able to.
    case unwritable(Errno)

    /// The POSIX error that says the same.
    public var errno: Errno {
        switch self {
        case .held: .resourceBusy
        case .unwritable(let errno): errno
        }
    }
}
