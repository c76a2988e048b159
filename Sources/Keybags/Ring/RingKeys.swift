import DurableFiles
import Glibc
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The keys of one keybag in its ring, which is the kernel keyring but for ``ProcessRing``. The presence of the first two is the lock state. FORMAT.md §2.5.
package struct RingKeys: Sendable {
    /// Class keys A and B private: there only while unlocked.
    package let unlocked: RingSlot
    /// Class key C: there since the first unlock.
    package let firstUnlock: RingSlot
    /// The key of ``GuessTagKey``: there from a wrong passcode until the right one. It says nothing about the lock state.
    package let guessTag: RingSlot
    /// The mark of ``HardwareGuess``: as ``guessTag``, of a keybag that is bound to hardware.
    package let hardwareGuess: RingSlot
    /// The generation that a rotation is about to make: there until the keybag has it, or an unlock has loaded the keybag's keys.
    package let rotation: RingSlot

    /// What the descriptions of class keys begin with.
    package static let prefix = "protectfs:"

    /// - Parameter process: where a temporary keybag has its keys; nil: in the kernel keyring.
    package init(_ keybag: KeybagUUID, in process: ProcessRing? = nil) {
        func slot(_ name: String) -> RingSlot { RingSlot(key: RingKey(description: name), process: process) }
        unlocked = slot("\(Self.prefix)\(keybag):1")
        firstUnlock = slot("\(Self.prefix)\(keybag):2")
        guessTag = slot("protectfs-attempts:\(keybag)")
        hardwareGuess = slot("protectfs-guess:\(keybag)")
        rotation = slot("protectfs-rotation:\(keybag)")
    }

    /// Where a temporary keybag has its keys; nil: in the kernel keyring.
    package var process: ProcessRing? { unlocked.process }

    /// Runs `body`, which changes the ring, where the ring can be changed.
    package func write<R>(_ body: () throws(Errno) -> R) throws(Errno) -> R { try unlocked.write(body) }

    /// The key that holds the keys of a class; nil for class D, which is in none.
    package func key(for protectionClass: ProtectionClass) -> RingSlot? {
        switch protectionClass {
        case .complete, .completeUnlessOpen: unlocked
        case .completeUntilFirstUserAuthentication: firstUnlock
        case .none: nil
        }
    }

    /// Reads a payload; nil if the key is not here.
    ///
    /// - Parameter serial: where the key was last time, to save the search; it is searched again when it has gone.
    package static func payload(
        of slot: RingSlot, serial: inout KeySerial?
    ) throws(DataProtectionError) -> SecretBytes? {
        if let process = slot.process { return slot.readFromProcess(process) }
        return try payload(of: slot.key, serial: &serial)
    }

    /// The same of the kernel keyring.
    package static func payload(of key: RingKey, serial: inout KeySerial?) throws(DataProtectionError) -> SecretBytes? {
        do throws(Errno) {
            // An unlock replaces the key: what was found may be gone before it is read, and another one be there.
            for _ in 0..<8 {
                let found: KeySerial
                if let serial { found = serial } else { found = try key.find() }
                serial = found
                do throws(Errno) {
                    return try read(found)
                } catch {
                    guard RingKey.isAbsent(error) else { throw error }
                    serial = nil
                }
            }
            return nil
        } catch {
            serial = nil
            guard RingKey.isAbsent(error) else { throw .because(KeybagFailure.keyringUnavailable(error)) }
            return nil
        }
    }

    /// Reads a key that was found before; fails if it has gone.
    static func read(_ key: KeySerial) throws(Errno) -> SecretBytes {
        // Room for six class keys, which is more than there are between rotations.
        var capacity = RingPayload.length(count: 6)
        while true {
            var count = 0
            let payload = try SecretBytes(capacity: capacity) { buffer throws(Errno) in
                count = try key.read(into: buffer)
                return count
            }
            if count <= capacity { return payload }
            guard count <= RingPayload.maximumLength else { throw .requiredKeyNotAvailable }  // not one of ours
            capacity = count
        }
    }

    /// The generation of a rotation that has not come to its end; nil if there is none.
    package var unfinishedRotation: UInt32? {
        var serial: KeySerial?
        guard let payload = try? Self.payload(of: rotation, serial: &serial) else { return nil }
        return payload.withUnsafeBytes { bytes in
            bytes.count == 4 ? UInt32(littleEndian: bytes.loadUnaligned(as: UInt32.self)) : nil
        }
    }

    /// Whether the key with A and B private is here. One that has expired is not.
    package var holdsUnlocked: Bool { (try? unlocked.find()) != nil }

    /// Whether it is certain that this key is not here: a remnant of it, or one that cannot be searched for, counts as here.
    private var isUnlockedAbsent: Bool {
        do throws(Errno) { try unlocked.find() } catch {
            return error == .requiredKeyNotAvailable && (process != nil || !unlocked.key.isHidden)
        }
        return false
    }

    /// Whether the key with A and B private is in the keyring of another user namespace, as far as `/proc/keys` shows: ``RingKey/elsewhere(_:)``. The
    /// record in the keybag's directory does not know of what another copy of the keybag was unlocked for: ``RingPlaces/refuseElsewhere()``.
    ///
    /// - Throws: `system` if `/proc/keys` cannot be read although it may be.
    package func isUnlockedElsewhere() throws(DataProtectionError) -> Bool {
        guard process == nil else { return false }
        return try !Self.elsewhere([unlocked.key]).isEmpty
    }

    /// The same of several keybags, in the time of one.
    ///
    /// - Returns: those of which it is.
    package static func unlockedElsewhere(_ keybags: [KeybagUUID]) throws(DataProtectionError) -> [KeybagUUID] {
        let found = Set(try elsewhere(keybags.map { RingKeys($0).unlocked.key }))
        return keybags.filter { found.contains(RingKeys($0).unlocked.key) }
    }

    private static func elsewhere(_ keys: [RingKey]) throws(DataProtectionError) -> [RingKey] {
        do throws(Errno) { return try RingKey.elsewhere(keys) } catch {
            throw .system("/proc/keys", operation: "read", error)
        }
    }

    /// Removes the key with A and B private from the ring, and with `everything` the other keys too.
    ///
    /// A search that says ENOKEY is the proof that the key is gone, before an eviction as after it.
    package func evict(everything: Bool = false) throws(DataProtectionError) {
        if !everything, isUnlockedAbsent { return }
        do throws(Errno) {
            try write { () throws(Errno) in
                // Both are tried, whatever becomes of the first.
                var failure: Errno?
                do throws(Errno) { try unlocked.evict() } catch { failure = error }
                if everything {
                    try firstUnlock.evict()
                    // They open nothing.
                    try? guessTag.evict()
                    try? hardwareGuess.evict()
                    try? rotation.evict()
                }
                if let failure { throw failure }
            }
        } catch {
            guard error == .noFunction || error == .notPermitted else {
                throw .because(KeybagFailure.lockIncomplete(keybag: unlocked.description, error))
            }
            throw .because(KeybagFailure.keyringUnavailable(error))
        }
    }

    /// Removes remnants: keys that have expired but whose payload the kernel may still hold (up to `gc_delay`, 300 s). And class keys
    /// A and B whose time is over by CLOCK_BOOTTIME: the kernel counts by the wall clock, which can be set back.
    ///
    /// - Parameter keybag: the keybag's directory. Nothing is removed while somebody loads keys: what is there when they are
    ///   done is no remnant.
    package func clearExpired(in keybag: FilePath) {
        let transition = TransitionFile(directory: keybag)
        let isUnlocked = clear(unlocked, transition)
        _ = clear(firstUnlock, transition)
        let places = RingPlaces(directory: keybag)
        func isOverdue() -> Bool {
            // What the last unlock anywhere has noted, and what that of this ring has.
            let record = transition.read()
            return record.isOverdue || places.asItHoldsHere(record).isOverdue
        }
        guard isUnlocked, isOverdue() else { return }
        transition.ifFree {
            guard isOverdue() else { return }
            try? evict()
            places.remove()
        }
    }

    /// - Returns: whether a living key is here.
    private func clear(_ key: RingSlot, _ transition: TransitionFile) -> Bool {
        do throws(Errno) { try key.find() } catch {
            guard Self.isRemnant(error) else { return false }
            transition.ifFree {
                do throws(Errno) { try key.find() } catch {
                    guard Self.isRemnant(error) else { return }
                    try? key.write { () throws(Errno) in try key.evict() }  // the next command tries again
                }
            }
            return false
        }
        return true
    }

    private static func isRemnant(_ error: Errno) -> Bool { error == .keyExpired || error == .keyRevoked }

    /// The keybag whose class keys have this description; nil if it is none of class keys.
    static func keybag(of description: String) -> KeybagUUID? {
        guard description.hasPrefix(prefix) else { return nil }
        return KeybagUUID(text: description.dropFirst(prefix.count).prefix(36))
    }

    /// The keybags with any class key in the ring, dead remnants included.
    package static func keybagsInRing() throws(DataProtectionError) -> [KeybagUUID] {
        let descriptions: Set<String>
        do throws(Errno) {
            descriptions = try RingKey.descriptions(withPrefix: prefix)
        } catch {
            throw .because(KeybagFailure.keyringUnavailable(error))
        }
        return Set(descriptions.compactMap(keybag(of:))).sorted { $0.description < $1.description }
    }
}

extension KeybagUUID {
    /// Reads the 36 characters of ``description``.
    package init?(text: some StringProtocol) {
        let digits = text.filter { $0 != "-" }.compactMap { $0.hexDigitValue.map(UInt8.init) }
        guard digits.count == 32 else { return nil }
        let bytes = (0..<16).map { digits[2 * $0] << 4 | digits[2 * $0 + 1] }
        guard let uuid = try? KeybagUUID(bytes: bytes), uuid.description == text else { return nil }
        self = uuid
    }
}
