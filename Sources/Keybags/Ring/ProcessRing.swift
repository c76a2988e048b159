import DurableFiles
import KernelKeyring
import ProtectionKeys
import Synchronization
import SystemPackage

/// A ring in this process's memory, for the keybags of unit tests: no keyring call, no quota, no other process.
///
/// Only ``Keybag/temporary(in:followUp:warn:)`` makes one. Neither a file nor an environment variable chooses it. It holds the
/// keybag key, so that an unlock derives nothing. That key is random and is stored nowhere, so no ring opens any other keybag.
package final class ProcessRing: Sendable {
    /// Opens the one keybag that the ring was made with.
    let keybagKey: KeybagKey

    private final class Payload: Sendable {
        let secret: SecretBytes
        /// CLOCK_BOOTTIME in nanoseconds; 0: never.
        let expiry: UInt64

        init(_ secret: consuming SecretBytes, expiry: UInt64) {
            self.expiry = expiry
            self.secret = secret
        }

        var hasExpired: Bool { expiry != 0 && Clock.bootTime() >= expiry }
    }
    private let payloads = Mutex<[RingKey: Payload]>([:])

    init(_ keybagKey: consuming KeybagKey) { self.keybagKey = keybagKey }

    /// A key that has expired is wiped here: in a process nobody collects it.
    private static func living(_ key: RingKey, in payloads: inout [RingKey: Payload]) -> Payload? {
        if payloads[key]?.hasExpired == true { payloads[key] = nil }
        return payloads[key]
    }

    fileprivate func holds(_ key: RingKey) -> Bool { payloads.withLock { Self.living(key, in: &$0) != nil } }

    fileprivate func read(_ key: RingKey) -> SecretBytes? {
        let payload = payloads.withLock { Self.living(key, in: &$0) }
        guard let payload else { return nil }
        return payload.secret.withUnsafeBytes { SecretBytes(copyOf: $0) }
    }

    fileprivate func load(_ bytes: UnsafeRawBufferPointer, as key: RingKey, seconds: UInt32) {
        let payload = Payload(SecretBytes(copyOf: bytes), expiry: Self.expiry(seconds))
        payloads.withLock { $0[key] = payload }
    }

    func evict(_ key: RingKey) { payloads.withLock { $0[key] = nil } }

    fileprivate func setTimeout(_ key: RingKey, seconds: UInt32) -> Bool {
        payloads.withLock { payloads in
            guard let payload = Self.living(key, in: &payloads) else { return false }
            let copy = payload.secret.withUnsafeBytes { SecretBytes(copyOf: $0) }
            payloads[key] = Payload(copy, expiry: Self.expiry(seconds))
            return true
        }
    }

    private static func expiry(_ seconds: UInt32) -> UInt64 {
        seconds == 0 ? 0 : Clock.bootTime() + UInt64(seconds) * 1_000_000_000
    }
}

/// One named key of a keybag's ring: in the kernel keyring, or of a temporary keybag in its ``ProcessRing``.
///
/// All other keybags pay one comparison with nil for this, and no system call.
package struct RingSlot: Sendable {
    /// Its name, in either place.
    package let key: RingKey
    /// nil: the kernel keyring.
    let process: ProcessRing?

    package var description: String { key.description }

    /// As ``RingKey/isUnreadable``.
    package var isUnreadable: Bool { process == nil && key.isUnreadable }

    /// As ``RingKey/find()``. In a process ring the number means nothing.
    @discardableResult
    package func find() throws(Errno) -> KeySerial {
        guard let process else { return try key.find() }
        guard process.holds(key) else { throw .requiredKeyNotAvailable }
        return KeySerial(rawValue: 0)
    }

    /// A copy of what a process ring holds; nil if the key is not there.
    func readFromProcess(_ process: ProcessRing) -> SecretBytes? { process.read(key) }

    /// As ``RingKey/load(_:seconds:)``. Call within ``write(_:)``.
    package func load(_ payload: UnsafeRawBufferPointer, seconds: UInt32 = 0) throws(Errno) {
        guard let process else {
            try key.load(payload, seconds: seconds)
            return
        }
        process.load(payload, as: key, seconds: seconds)
    }

    /// As ``RingKey/evict()``. Call within ``write(_:)``.
    package func evict() throws(Errno) {
        guard let process else { return try key.evict() }
        process.evict(key)
    }

    /// As ``RingKey/setTimeout(seconds:)``. Call within ``write(_:)``.
    package func setTimeout(seconds: UInt32) throws(Errno) {
        guard let process else { return try key.setTimeout(seconds: seconds) }
        guard process.setTimeout(key, seconds: seconds) else { throw .requiredKeyNotAvailable }
    }

    /// As ``RingKey/timeLeft()``. A process ring has no keys of others.
    package func timeLeft() throws(Errno) -> Range<UInt64>? { process == nil ? try key.timeLeft() : nil }

    /// Runs `body`, which changes the ring, where the ring can be changed. See ``RingWriter/run(_:)``.
    package func write<R>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
        process == nil ? try RingWriter.run(body) : try body()
    }
}
