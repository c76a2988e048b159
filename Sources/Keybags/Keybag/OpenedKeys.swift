import DurableFiles
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The class keys of a keybag, opened and checked, as the two payloads of the ring. FORMAT.md §2.1, §2.5.
package struct OpenedKeys: ~Copyable {
    /// Which of them are meant.
    package enum Extent {
        case all
        /// Class key C: A and B private stay wrapped, in this process too.
        case onlyFirstUnlock
    }
    package let extent: Extent
    /// Class keys A and B private, and A of secrets, all generations; no key where only C is meant.
    package let unlocked: SecretBytes
    /// Class key C, of files and of secrets, and the id of class key D, all generations.
    package let firstUnlock: SecretBytes
    /// What was opened.
    let entries: [ClassKeyEntry]

    /// Opens every class key that is meant, or none.
    ///
    /// - Throws: `keybagDamaged` if the MAC, or any wrap, id or public key that is looked at, is wrong.
    package init(
        _ loaded: KeybagFile.Loaded, _ key: borrowing KeybagKey, _ directory: FilePath, _ extent: Extent = .all
    ) throws(DataProtectionError) {
        let keybag = loaded.copy
        let now = Clock.now()
        do throws(KeyError) {
            guard try KeybagCopy.isMACGood(loaded.bytes, under: key) else { throw .authenticationFailed }
            for entry in keybag.fileEntries where entry.rawClass == ProtectionClass.none.rawValue {
                _ = try Self.open(entry, of: keybag, key)
            }
            let unlockedClasses: [ProtectionClass] = extent == .all ? [.complete, .completeUnlessOpen] : []
            func open(_ entry: ClassKeyEntry) throws(KeyError) -> RingPayload.Entry {
                try Self.open(entry, of: keybag, key)
            }
            let unlocked = try Self.payload(unlockedClasses, keybag, now, open)
            let firstUnlock = try Self.payload(
                [.completeUntilFirstUserAuthentication], keybag, now, identifying: ProtectionClass.none, open)
            self.extent = extent
            self.entries = keybag.entries
            self.unlocked = unlocked
            self.firstUnlock = firstUnlock
        } catch .authenticationFailed {
            throw .because(KeybagFailure.keybagDamaged(directory, reason: "its authentication code is wrong"))
        } catch .unwrapFailed {
            throw .because(
                KeybagFailure.keybagDamaged(directory, reason: "a class key does not open, or is another one"))
        } catch {
            throw .cryptography(error)
        }
    }

    /// Opens class keys C, all generations, with a first-unlock secret. FORMAT.md §2.20.
    ///
    /// - Throws: `firstUnlockSecret`; `keybagDamaged` if a MAC, a wrap or an id is wrong.
    package init(
        _ copy: KeybagCopy, sharedWith secret: borrowing FirstUnlockSecret, _ device: borrowing DeviceKey,
        of keybag: Keybag
    ) throws(DataProtectionError) {
        let now = Clock.now()
        let shares = try keybag.withKeybagKeys { () throws(KeyError) in
            let id = try secret.id(for: copy.uuid)
            return copy.firstUnlockShares.filter { $0.id == id }
        }
        guard let name = shares.first?.name else { throw keybag.failure(.unknown) }
        guard copy.isComplete(shares) else { throw keybag.failure(.outdated(name: name)) }
        // Of every generation: the ids of class keys D go into the ring as well.
        try keybag.withKeybagKeys { () throws(KeyError) in
            for generation in Set(copy.fileEntries.map(\.generation)) {
                let share = shares.first { $0.generation == generation }
                guard try share?.isAuthentic(in: copy, for: secret, device) == true else { throw .authenticationFailed }
            }
        }
        func open(_ entry: ClassKeyEntry) throws(KeyError) -> RingPayload.Entry {
            guard let name = copy.name(of: entry),
                let share = shares.first(where: { $0.generation == entry.generation })
            else { throw .unwrapFailed }
            guard let opened = try share.open(name, with: secret, device),
                areEqualInConstantTime(try opened.id(), entry.id)
            else { throw .unwrapFailed }
            return RingPayload.Entry(opened)
        }
        let unlocked = try keybag.withKeybagKeys { () throws(KeyError) in try Self.payload([], copy, now, open) }
        let firstUnlock = try keybag.withKeybagKeys { () throws(KeyError) in
            try Self.payload(
                [.completeUntilFirstUserAuthentication], copy, now, identifying: ProtectionClass.none, open)
        }
        self.extent = .onlyFirstUnlock
        self.entries = copy.entries
        self.unlocked = unlocked
        self.firstUnlock = firstUnlock
    }

    /// - Parameters:
    ///   - identified: the class whose keys' ids are in the payload too, without the keys.
    ///   - open: gives the key of an entry.
    private static func payload(
        _ classes: [ProtectionClass], _ keybag: KeybagCopy, _ now: UInt64,
        identifying identified: ProtectionClass? = nil, _ open: (ClassKeyEntry) throws(KeyError) -> RingPayload.Entry
    ) throws(KeyError) -> SecretBytes {
        let entries = keybag.usedEntries.filter { entry in classes.contains { $0.rawValue == entry.rawClass } }
        let named = keybag.fileEntries.filter { $0.rawClass == identified?.rawValue }
        let count = entries.count + named.count
        var payload = SecretBytes(zeroed: RingPayload.length(count: count))
        for (index, entry) in entries.enumerated() {
            let opened = try open(entry)
            payload.withUnsafeMutableBytes { payload in
                RingPayload.write(opened, at: index, of: count, loadedAt: now, into: payload)
            }
        }
        for (index, entry) in named.enumerated() {
            guard let name = keybag.name(of: entry) else { throw .unwrapFailed }
            let id = RingPayload.Entry(idOf: name, entry.id)
            payload.withUnsafeMutableBytes { payload in
                RingPayload.write(id, at: entries.count + index, of: count, loadedAt: now, into: payload)
            }
        }
        return payload
    }

    /// - Throws: `unwrapFailed` also for a key that is not the one its entry names.
    private static func open(
        _ entry: ClassKeyEntry, of keybag: KeybagCopy, _ key: borrowing KeybagKey
    ) throws(KeyError) -> RingPayload.Entry {
        guard let name = keybag.name(of: entry) else { throw .unwrapFailed }
        if name.protectionClass == .completeUnlessOpen {
            let opened = try key.unwrapB(entry.wrapped, as: name)
            guard areEqualInConstantTime(try opened.id(), entry.id), opened.publicKey == entry.publicHalf?.key else {
                throw .unwrapFailed
            }
            return RingPayload.Entry(opened)
        }
        let opened = try key.unwrap(entry.wrapped, as: name)
        guard areEqualInConstantTime(try opened.id(), entry.id) else { throw .unwrapFailed }
        return RingPayload.Entry(opened)
    }
}

extension Keybag {
    /// Puts the keys into the ring, C first, unless somebody has locked since `counter` was read.
    ///
    /// - Parameter note: made before `counter` was read; nil for keys that no other process sees.
    /// - Returns: false if the keybag has other keys by now, and nothing was loaded.
    package func load(
        _ keys: borrowing OpenedKeys, seconds: UInt32?, ifCounterIs counter: UInt64, noted note: UnlockUnderWay? = nil
    ) throws(DataProtectionError) -> Bool {
        // Before anything that would evict keys if it failed.
        if keys.extent == .onlyFirstUnlock {
            do throws(DataProtectionError) { try refuseOlder(keys) } catch {
                // Not an older keybag, if a rotation has just replaced it.
                if let now = try? file.load().copy, now.entries != keys.entries { return false }
                throw error
            }
        }
        let hadC = try state() != .beforeFirstUnlock
        do throws(DataProtectionError) {
            return try inTurn(ifCounterIs: counter) { record throws(DataProtectionError) in
                // Stopped for so long that locks do not know of it any more.
                guard note?.isNoted ?? true else { throw .because(KeybagFailure.lockedMeanwhile(keybag: directory)) }
                // Nothing is loaded of a keybag that was erased while the passcode was checked, nor keys that were rotated away.
                guard try file.isAnythingThere() else { throw .because(KeybagFailure.keybagNotFound(directory)) }
                // Nor where a lock would not write its counter.
                try OwnDirectory.requireOnlyOwners(directory)
                if let now = try? file.load().copy, now.entries != keys.entries { return false }
                guard keys.extent == .all else {
                    do throws(Errno) { try put(keys, seconds: 0) } catch {
                        throw .because(KeybagFailure.keyringUnavailable(error))
                    }
                    // An armed lock, and the end of a limited unlock, are about keys that this leaves alone.
                    if !hadC { record.changedAt = Clock.now() }
                    return true
                }
                let isFirst = try state() == .beforeFirstUnlock
                record.deadline = 0
                record.limit = seconds.map { Clock.bootTime() + UInt64($0) * 1_000_000_000 } ?? 0
                record.bootID = Clock.bootID()
                try rings.add(expiry: record.limit)
                do throws(Errno) {
                    let seconds = record.secondsToExpiry
                    // A process elsewhere would take a time by the clock of a time namespace for one by its own.
                    if !Clock.isOfMachine { record.limit = 0 }
                    if isFirst {
                        try put(keys, seconds: Self.soonest(seconds), secondsOfC: Self.incompleteSeconds)
                        try keep(seconds: seconds)
                    } else {
                        try put(keys, seconds: seconds)
                    }
                } catch {
                    // Gone again: a lock that could not wait, or this process was stopped for longer than the keys may be incomplete.
                    if [.requiredKeyNotAvailable, .keyExpired, .keyRevoked].contains(error) {
                        throw .because(KeybagFailure.lockedMeanwhile(keybag: directory))
                    }
                    throw .because(KeybagFailure.keyringUnavailable(error))
                }
                record.changedAt = Clock.now()
                announce(.didBecomeAvailable, record)
                return true
            }
        } catch {
            // All or none, whatever failed. That a lock was not obeyed is worse than what led here.
            if hadC, keys.extent == .onlyFirstUnlock { throw error }
            do throws(DataProtectionError) {
                try ring.evict(everything: !hadC)
                announce(.didBecomeUnavailable, transition.read())
            } catch let eviction {
                if case .because(KeybagFailure.lockedMeanwhile) = error { throw eviction }
            }
            throw error
        }
    }

    /// Runs `body` in its turn between locks and unlocks.
    ///
    /// - Throws: `lockedMeanwhile` if somebody has locked since `counter` was read, before `body` or during it.
    func inTurn<R>(
        ifCounterIs counter: UInt64, _ body: (inout TransitionRecord) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        let result = try transition.exclusively { record throws(DataProtectionError) in
            guard record.counter == counter else { throw .because(KeybagFailure.lockedMeanwhile(keybag: directory)) }
            return try body(&record)
        }
        // A lock that could not get the flock in time has raised the counter all the same, and it wins.
        guard transition.stored()?.counter == counter else {
            throw .because(KeybagFailure.lockedMeanwhile(keybag: directory))
        }
        return result
    }

    /// How long the ring may hold some class keys of a first unlock and not yet all: nobody removes them if the process is killed between two
    /// calls, or is stopped there and killed later.
    private static let incompleteSeconds: UInt32 = 60

    /// - Parameter seconds: of a timeout; 0: none.
    private static func soonest(_ seconds: UInt32) -> UInt32 { min(seconds == 0 ? .max : seconds, incompleteSeconds) }

    /// Gives the keys of a first unlock, which are all there now, the timeouts that they are to have: C first, because files of class C are to
    /// open whenever those of A and B do.
    ///
    /// - Parameter seconds: after which A and B private expire; 0: never.
    private func keep(seconds: UInt32) throws(Errno) {
        try ring.write { () throws(Errno) in
            try ring.firstUnlock.setTimeout(seconds: 0)
            try ring.unlocked.setTimeout(seconds: seconds)
        }
    }

    /// - Parameters:
    ///   - seconds: after which A and B private expire; 0: never.
    ///   - secondsOfC: the same of C.
    private func put(_ keys: borrowing OpenedKeys, seconds: UInt32, secondsOfC: UInt32 = 0) throws(Errno) {
        try keys.firstUnlock.withUnsafeBytes { firstUnlock throws(Errno) in
            try keys.unlocked.withUnsafeBytes { unlocked throws(Errno) in
                try ring.write { () throws(Errno) in
                    try ring.firstUnlock.load(firstUnlock, seconds: secondsOfC)
                    guard keys.extent == .all else { return }
                    try ring.unlocked.load(unlocked, seconds: seconds)
                    try? ring.rotation.evict()  // what an interrupted rotation had loaded has gone
                }
            }
        }
    }
}
