import Glibc
import KernelKeyring
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

extension Keybag {
    /// Evicts class keys A and B private from the kernel keyring at once. Idempotent; a no-op before first unlock.
    ///
    /// Wins over any unlock that began before it. Returns only when a search for the keys says that they are gone.
    /// - Throws: `lockIncomplete`, `keyringUnavailable`.
    public func lock() throws(DataProtectionError) {
        try transition.exclusivelyOrAnyway { record throws(DataProtectionError) in
            try ring.evict()
            record.deadline = 0
        }
        ClassChangeIntent.finishAll(in: directory)
    }

    /// Arms a lock `seconds` from now, so that programs can save, and returns at once.
    ///
    /// The kernel itself lets the keys expire two seconds after that, even if the caller dies. Whoever armed the lock calls
    /// ``finishLock(_:)`` at its deadline. An unlock, or ``cancelArmedLock()``, ends it; ``lock()`` overtakes it. What is
    /// due earlier already, an armed lock or the end of a limited unlock, is not put off.
    /// - Returns: what to give to ``finishLock(_:)``; nil if there was nothing to lock.
    public func armLock(seconds: UInt32) throws(DataProtectionError) -> ArmedLock? {
        var armed: ArmedLock?
        try transition.exclusivelyOrAnyway { record throws(DataProtectionError) in
            let deadline = Clock.bootTime() + UInt64(seconds) * 1_000_000_000
            let isDueEarlier = (1...deadline).contains(record.deadline) && record.bootID == Clock.bootID()
            do throws(Errno) {
                try RingWriter.run { () throws(Errno) in
                    let key = try ring.unlocked.find()
                    if !isDueEarlier { try key.setTimeout(seconds: min(seconds, .max - 2) + 2) }
                }
            } catch {
                guard RingKey.isAbsent(error) else { throw .keyringUnavailable(error) }
                return
            }
            if !isDueEarlier { record.deadline = deadline }
            record.bootID = Clock.bootID()
            armed = ArmedLock(counter: record.counter, deadline: record.deadline)
        }
        return armed
    }

    /// Locks, unless the armed lock was ended or overtaken meanwhile.
    ///
    /// - Returns: whether this call locked.
    @discardableResult
    public func finishLock(_ armed: ArmedLock) throws(DataProtectionError) -> Bool {
        let now = transition.read()
        guard now.counter == armed.counter, now.deadline == armed.deadline else { return false }
        try lock()
        return true
    }

    /// Evicts the keys of every keybag in the ring of this user: for a lock that must not depend on any file.
    ///
    /// - Returns: the keybags that had keys there.
    @discardableResult
    public static func lockAll() throws(DataProtectionError) -> [KeybagUUID] {
        let keybags = try RingKeys.keybagsInRing()
        for uuid in keybags { try RingKeys(uuid).evict() }
        return keybags
    }

    /// The keybags of which any key is in the ring.
    public static func loaded() throws(DataProtectionError) -> [KeybagUUID] { try RingKeys.keybagsInRing() }

    /// Empties the ring of this keybag, as a boot does. For tests, and for erasing.
    package func evictEverything() throws(DataProtectionError) {
        try transition.exclusivelyOrAnyway { record throws(DataProtectionError) in
            try ring.evict(everything: true)
            record.deadline = 0
        }
    }
}

/// A lock that is going to happen.
public struct ArmedLock: Hashable, Sendable {
    let counter: UInt64
    /// CLOCK_BOOTTIME in nanoseconds.
    public let deadline: UInt64

    /// How long to wait, in seconds.
    public var secondsLeft: Double {
        let now = Clock.bootTime()
        return now >= deadline ? 0 : Double(deadline - now) / 1_000_000_000
    }
}
