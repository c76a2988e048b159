import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// All class keys of a keybag, opened and checked, as the two payloads of the ring. FORMAT.md §2.1, §2.5.
struct OpenedKeys: ~Copyable {
    /// Class keys A and B private, all generations.
    let unlocked: SecretBytes
    /// Class key C, all generations.
    let firstUnlock: SecretBytes

    /// Opens every class key, or none.
    ///
    /// - Throws: `keybagDamaged` if the MAC, any wrap, any id or any public key is wrong.
    init(
        _ loaded: KeybagFile.Loaded, _ key: borrowing KeybagKey, _ directory: FilePath
    ) throws(DataProtectionError) {
        let keybag = loaded.copy
        let now = Clock.now()
        do throws(KeyError) {
            guard try KeybagCopy.isMACGood(loaded.bytes, under: key) else { throw .authenticationFailed }
            for entry in keybag.fileEntries where entry.rawClass == ProtectionClass.none.rawValue {
                _ = try Self.open(entry, of: keybag, key)
            }
            let unlocked = try Self.payload([.complete, .completeUnlessOpen], keybag, key, now)
            let firstUnlock = try Self.payload([.completeUntilFirstUserAuthentication], keybag, key, now)
            self.unlocked = unlocked
            self.firstUnlock = firstUnlock
        } catch .authenticationFailed {
            throw .keybagDamaged(directory, reason: "its authentication code is wrong")
        } catch .unwrapFailed {
            throw .keybagDamaged(directory, reason: "a class key does not open, or is another one")
        } catch {
            throw .cryptography(error)
        }
    }

    private static func payload(
        _ classes: [ProtectionClass], _ keybag: KeybagCopy, _ key: borrowing KeybagKey, _ now: UInt64
    ) throws(KeyError) -> SecretBytes {
        let entries = keybag.fileEntries.filter { entry in classes.contains { $0.rawValue == entry.rawClass } }
        var payload = SecretBytes(zeroed: RingPayload.length(count: entries.count))
        for (index, entry) in entries.enumerated() {
            let opened = try open(entry, of: keybag, key)
            payload.withUnsafeMutableBytes { payload in
                RingPayload.write(opened, at: index, of: entries.count, loadedAt: now, into: payload)
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
    func load(
        _ keys: borrowing OpenedKeys, seconds: UInt32?, ifCounterIs counter: UInt64
    ) throws(DataProtectionError) {
        let hadC = try state() != .beforeFirstUnlock
        do throws(DataProtectionError) {
            try loadInTurn(keys, seconds, counter)
        } catch {
            // All or none, whatever failed. That a lock was not obeyed is worse than what led here.
            do throws(DataProtectionError) { try ring.evict(everything: !hadC) } catch let eviction {
                if case .lockedMeanwhile = error { throw eviction }
            }
            throw error
        }
    }

    private func loadInTurn(
        _ keys: borrowing OpenedKeys, _ seconds: UInt32?, _ counter: UInt64
    ) throws(DataProtectionError) {
        try transition.exclusively { record throws(DataProtectionError) in
            guard record.counter == counter else { throw .lockedMeanwhile(keybag: directory) }
            // Nothing is loaded of a keybag that was erased while the passcode was checked.
            guard file.isAnythingThere else { throw .keybagNotFound(directory) }
            do throws(Errno) {
                try keys.firstUnlock.withUnsafeBytes { firstUnlock throws(Errno) in
                    try keys.unlocked.withUnsafeBytes { unlocked throws(Errno) in
                        try put(firstUnlock, unlocked, seconds)
                    }
                }
            } catch {
                throw .keyringUnavailable(error)
            }
            record.deadline = 0
            record.limit = seconds.map { Clock.bootTime() + UInt64($0) * 1_000_000_000 } ?? 0
            record.bootID = Clock.bootID()
            record.changedAt = Clock.now()
        }
        // A lock that could not get the flock in time has raised the counter all the same, and it wins.
        guard let now = try? transition.readStrictly(), now.counter == counter else {
            throw .lockedMeanwhile(keybag: directory)
        }
    }

    private func put(
        _ firstUnlock: UnsafeRawBufferPointer, _ unlocked: UnsafeRawBufferPointer, _ seconds: UInt32?
    ) throws(Errno) {
        try RingWriter.run { () throws(Errno) in
            try ring.firstUnlock.load(firstUnlock)
            try ring.unlocked.load(unlocked)
            if let seconds { try ring.unlocked.setTimeout(seconds: max(seconds, 1)) }  // 0 would be: never
        }
    }
}
