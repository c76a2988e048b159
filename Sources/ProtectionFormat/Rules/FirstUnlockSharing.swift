import ProtectionKeys

extension KeybagCopy {
    /// Adds the shares of a new first-unlock secret: one for each generation of class key C.
    ///
    /// The caller has seen that there is room for them, and the keybag's MAC is good.
    /// - Parameters:
    ///   - number: of no other secret.
    ///   - name: of no other secret, and ``FirstUnlockShare/isUsable(_:)``.
    /// - Throws: `unwrapFailed` if a class key C does not open.
    package mutating func share(
        with secret: borrowing FirstUnlockSecret, number: UInt8, name: String, under key: borrowing KeybagKey,
        _ device: borrowing DeviceKey
    ) throws(KeyError) {
        let id = try secret.id(for: uuid)
        let macKey = try secret.macKey(for: uuid, on: device)
        for generation in firstUnlockGenerations.sorted() {
            var share = FirstUnlockShare(
                number: number, generation: generation, id: id,
                files: try rewrap(.files, generation, for: secret, under: key, device),
                secrets: try rewrap(.secrets, generation, for: secret, under: key, device), name: name)
            share.mac = try macKey.tag(of: share.message(in: self))
            entries.append(share.entry)
        }
    }

    private func rewrap(
        _ kind: ClassKeyKind, _ generation: UInt32, for secret: borrowing FirstUnlockSecret,
        under key: borrowing KeybagKey, _ device: borrowing DeviceKey
    ) throws(KeyError) -> WrappedKey? {
        let name = ClassKeyName(
            keybag: uuid, kind: kind, protectionClass: .completeUntilFirstUserAuthentication, generation: generation)
        guard let entry = entry(of: name) else { return nil }
        return try secret.wrap(key.unwrap(entry.wrapped, as: name), on: device)
    }
}

extension FirstUnlockShare {
    /// Whether the MAC is good.
    package func isAuthentic(
        in keybag: KeybagCopy, for secret: borrowing FirstUnlockSecret, _ device: borrowing DeviceKey
    ) throws(KeyError) -> Bool {
        try secret.macKey(for: keybag.uuid, on: device).isValid(mac, for: message(in: keybag))
    }

    /// The class key of a name with class C and this generation; nil if there is none.
    ///
    /// - Throws: `unwrapFailed`.
    package func open(
        _ name: ClassKeyName, with secret: borrowing FirstUnlockSecret, _ device: borrowing DeviceKey
    ) throws(KeyError) -> ClassKey? {
        let wrapped = name.kind == .files ? files : secrets
        guard let wrapped else { return nil }
        return try secret.unwrap(wrapped, as: name, on: device)
    }
}
