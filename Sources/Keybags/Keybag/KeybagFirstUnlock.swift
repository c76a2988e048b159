import DurableFiles
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

/// A first-unlock secret as its keybag knows it. Anybody who can write the keybag's files can make one up; it opens nothing then.
public struct FirstUnlockSecretEntry: Hashable, Sendable {
    /// 1 to 64 bytes.
    public let name: String
    /// Whether it opens all class keys C of the keybag, as it does until they are rotated.
    public let isCurrent: Bool

    package init(name: String, isCurrent: Bool) {
        self.name = name
        self.isCurrent = isCurrent
    }
}

extension OpenedKeybag {
    /// Adds a secret that opens class key C on this machine, and no other key: ``Keybag/unlockOnlyFirstUnlock(secret:)``.
    ///
    /// It is valid until it is removed or the class keys are rotated. A new passcode does not affect it. Anyone with the secret, the device key
    /// and the keybag can read files of class C, and stored secrets of that class.
    /// - Parameters:
    ///   - secret: new, and stored already where the machine finds it: the keybag does not have it.
    ///   - name: 1 to 64 bytes of UTF-8, no control or formatting characters, and of no other secret.
    /// - Throws: `firstUnlockSecret`; `busy`, `system`: nothing has changed then; `keybagUnconfirmed`.
    public consuming func add(
        _ secret: borrowing FirstUnlockSecret, named name: String
    ) throws(DataProtectionError) {
        guard FirstUnlockShare.isUsable(name) else { throw keybag.failure(.unusableName) }
        let device = try deviceKey()
        try replace { copy throws(DataProtectionError) in
            let shares = copy.firstUnlockShares
            guard !shares.contains(where: { $0.name == name }) else { throw keybag.failure(.exists(name: name)) }
            let number = (1...UInt8.max).first { number in !shares.contains { $0.number == number } }
            guard let number else { throw keybag.failure(FirstUnlockSecretProblem.noRoom) }
            try keybag.withKeybagKeys { () throws(KeyError) in
                if !copy.holds(.secrets) {
                    copy.entries += try ClassKeyEntry.secrets(copy.active(.complete).generation, under: key)
                }
                try copy.share(with: secret, number: number, name: name, under: key, device)
            }
            guard copy.entries.count <= KeybagCopy.maximumEntryCount else {
                throw keybag.failure(FirstUnlockSecretProblem.noRoom)
            }
            return try withKeys { () throws(KeyError) in try copy.encoded(under: key) }
        }
    }

    /// Removes a secret. With an earlier copy of the keybag it still opens class key C. After a rotation that copy opens no rotated file.
    ///
    /// - Throws: `firstUnlockSecret`; `busy`, `system`: nothing has changed then; `keybagUnconfirmed`.
    public consuming func removeFirstUnlockSecret(named name: String) throws(DataProtectionError) {
        try replace { copy throws(DataProtectionError) in
            let count = copy.entries.count
            copy.removeFirstUnlockShares { $0.name == name }
            guard copy.entries.count < count else { throw keybag.failure(.absent(name: name)) }
            return try withKeys { () throws(KeyError) in try copy.encoded(under: key) }
        }
    }
}

extension Keybag {
    /// The secrets that the keybag knows, by name. Needs no key.
    public var firstUnlockSecrets: [FirstUnlockSecretEntry] {
        let copy = lastKnown
        let byNumber = Dictionary(grouping: copy.firstUnlockShares, by: \.number)
        let secrets = byNumber.values.map { FirstUnlockSecretEntry(name: $0[0].name, isCurrent: copy.isComplete($0)) }
        return secrets.sorted { $0.name < $1.name }
    }

    /// Loads class key C into the kernel keyring, and neither A nor B private, as ``unlockOnlyFirstUnlock(passcode:)`` does.
    ///
    /// No attempt is counted and none is delayed: nobody guesses 32 random bytes.
    /// - Throws: `firstUnlockSecret`, `otherDevice`, `deviceKeyUnusable`, `keybagDamaged`, `lockedMeanwhile`, `keyringUnavailable`.
    public func unlockOnlyFirstUnlock(secret: borrowing FirstUnlockSecret) throws(DataProtectionError) {
        try TemporaryKeys.refusePasscode(of: self)
        let note = try UnlockUnderWay(of: uuid, in: directory)
        defer { note.end() }
        let counter = try transition.readStrictly().counter
        var loaded = try file.load()
        while true {
            let device = try deviceKeys.load(for: loaded.copy, in: directory)
            let keys = try OpenedKeys(loaded.copy, sharedWith: secret, device, of: self)
            if try load(keys, seconds: nil, ifCounterIs: counter, noted: note) { break }
            loaded = try file.load()
        }
        cache(loaded.copy)
        KeybagRegistry.note(self)
        followUp.perform(in: directory, warn: warn)
    }

    package func failure(_ problem: FirstUnlockSecretProblem) -> DataProtectionError {
        .because(KeybagFailure.firstUnlockSecret(keybag: directory, problem))
    }
}
