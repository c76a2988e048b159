import DurableFiles
import KernelKeyring
import ProtectionFormat
import SystemPackage

/// In which order a keybag and its keys in the ring are replaced. FORMAT.md §2.11.
package enum KeyExchange {
    /// The ring first: a process that reads the new keybag finds its keys. For keys of this new generation.
    case ringFirst(generation: UInt32)
    /// The keybag first. For fewer keys than there were: until the ring follows, it holds some that the keybag does not name.
    case keybagFirst
}

extension Keybag {
    /// Replaces keybag and ring in one turn between locks and unlocks; timeouts stay as they are.
    ///
    /// If a step fails, keybag and ring still agree afterwards. Everything that takes key quota is made before either is changed, and the ring gets
    /// its old keys back if the keybag cannot be replaced. After a kill in between, the ring has the keys of both keybags, and
    /// ``RingKeys/unfinishedRotation`` says so until the next unlock.
    /// - Parameter store: replaces the keybag.
    /// - Throws: `lockedMeanwhile` if somebody has locked since `counter` was read, or the keys have expired, before anything
    ///   was changed. A lock that could not wait for its turn wins too, but the keybag is changed then. What `store` throws.
    ///   `keyringUnavailable`.
    package func exchange(
        _ keys: borrowing OpenedKeys, ifCounterIs counter: UInt64, _ order: KeyExchange,
        store: () throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        try TemporaryKeys.refusePasscode(of: self)
        // Before it is seen that the keys are there: a lock of a copy of this keybag has evicted them, or stops this.
        let note = ring.process == nil ? try UnlockUnderWay(of: uuid, in: directory) : nil
        defer { note?.end() }
        var isChanged = false
        do throws(DataProtectionError) {
            try inTurn(ifCounterIs: counter) { record throws(DataProtectionError) in
                let known = Clock.mayBeThisBoot(record.bootID) ? record : TransitionRecord()
                let outcome: Result<Void, DataProtectionError>
                do throws(Errno) {
                    let seconds = try secondsInRing(atMost: secondsToExpiry(known))
                    outcome = try exchangeInRing(keys, seconds: seconds, order, store)
                } catch {
                    guard RingKey.isAbsent(error) else { throw .because(KeybagFailure.keyringUnavailable(error)) }
                    throw .because(KeybagFailure.lockedMeanwhile(keybag: directory))
                }
                try outcome.get()
                isChanged = true
            }
        } catch {
            // A lock that could not wait for its turn may have come before the old keys were put back.
            let isLocked =
                if case .because(KeybagFailure.lockedMeanwhile) = error { true } else {
                    transition.stored()?.counter != counter
                }
            if isLocked { try ring.evict() }
            if !isChanged { throw error }
        }
    }

    /// - Returns: what came of `store`.
    /// - Throws: what the ring refuses. Neither ring nor keybag has changed then, except with ``KeyExchange/keybagFirst``: of a ring that
    ///   holds more keys than the keybag names, these are not used.
    private func exchangeInRing(
        _ keys: borrowing OpenedKeys, seconds: UInt32, _ order: KeyExchange,
        _ store: () throws(DataProtectionError) -> Void
    ) throws(Errno) -> Result<Void, DataProtectionError> {
        try keys.firstUnlock.withUnsafeBytes { firstUnlock throws(Errno) in
            try keys.unlocked.withUnsafeBytes { unlocked throws(Errno) in
                try ring.write { () throws(Errno) -> Result<Void, DataProtectionError> in
                    _ = try ring.unlocked.find()
                    let exchange = RingExchange()
                    if case .ringFirst(let generation) = order { try exchange.prepare(ring.rotation.key, generation) }
                    try exchange.prepare(ring.firstUnlock.key, firstUnlock)
                    try exchange.prepare(ring.unlocked.key, unlocked, seconds: seconds)
                    switch order {
                    case .ringFirst:
                        try exchange.apply()
                        return complete(exchange, keys.entries, store)
                    case .keybagFirst:
                        do throws(DataProtectionError) { try store() } catch { return .failure(error) }
                        do throws(Errno) { try exchange.apply() } catch {
                            // Expired meanwhile: the next unlock loads what is left.
                            guard RingKey.isAbsent(error) else { throw error }
                            return .success(())
                        }
                        exchange.finish()
                        return .success(())
                    }
                }
            }
        }
    }

    /// Replaces the keybag when the ring has the new keys, and puts the old keys back if that fails.
    private func complete(
        _ exchange: RingExchange, _ entries: [ClassKeyEntry], _ store: () throws(DataProtectionError) -> Void
    ) -> Result<Void, DataProtectionError> {
        do throws(DataProtectionError) { try store() } catch {
            // The new keybag can be in force in spite of the error. Where that is not known, the ring keeps the keys of both.
            guard let now = try? file.load().copy else { return .failure(error) }
            if now.entries == entries {
                exchange.finish()
                try? ring.rotation.evict()
            } else {
                exchange.undo()
            }
            return .failure(error)
        }
        exchange.finish()
        try? ring.rotation.evict()
        return .success(())
    }
}

extension RingExchange {
    /// The same with a number for payload: 4 bytes, little-endian.
    fileprivate func prepare(_ key: RingKey, _ number: UInt32) throws(Errno) {
        let result: Result<Void, Errno> = withUnsafeBytes(of: number.littleEndian) { bytes in
            do throws(Errno) { return .success(try prepare(key, bytes)) } catch { return .failure(error) }
        }
        try result.get()
    }
}
