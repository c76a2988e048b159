import ProtectionKeys

extension ClassKeyEntry {
    /// New class keys of files and of secrets, all of one generation and active.
    package static func generation(
        _ generation: UInt32, under key: borrowing KeybagKey, _ device: borrowing DeviceKey
    ) throws(KeyError) -> [ClassKeyEntry] {
        let uuid = key.keybag
        func name(_ protectionClass: ProtectionClass) -> ClassKeyName {
            ClassKeyName(keybag: uuid, protectionClass: protectionClass, generation: generation)
        }
        let a = try ClassKey.random(name: name(.complete))
        let b = try ClassBPrivateKey.random(name: name(.completeUnlessOpen))
        let c = try ClassKey.random(name: name(.completeUntilFirstUserAuthentication))
        let d = try ClassKey.random(name: name(.none))
        let message = PublicHalf.message(name: b.name, key: b.publicKey)
        let publicHalf = PublicHalf(
            key: b.publicKey, macUnderC: try c.bPublicMACKey().tag(of: message),
            macUnderDevice: try device.bPublicMACKey(for: uuid).tag(of: message))
        return [
            ClassKeyEntry(name: a.name, state: .active, id: try a.id(), wrapped: try key.wrap(a)),
            ClassKeyEntry(
                name: b.name, state: .active, id: try b.id(), wrapped: try key.wrap(b), publicHalf: publicHalf),
            ClassKeyEntry(name: c.name, state: .active, id: try c.id(), wrapped: try key.wrap(c)),
            ClassKeyEntry(
                name: d.name, state: .active, id: try d.id(), wrapped: try key.wrap(d),
                wrappedByDevice: try device.wrap(d)),
        ] + (try secrets(generation, under: key))
    }

    /// New class keys of secrets, active.
    package static func secrets(
        _ generation: UInt32, under key: borrowing KeybagKey
    ) throws(KeyError) -> [ClassKeyEntry] {
        var entries: [ClassKeyEntry] = []
        for protectionClass in ClassKeyKind.secrets.classes {
            let new = try ClassKey.random(
                name: ClassKeyName(
                    keybag: key.keybag, kind: .secrets, protectionClass: protectionClass, generation: generation))
            entries.append(
                ClassKeyEntry(name: new.name, state: .active, id: try new.id(), wrapped: try key.wrap(new)))
        }
        return entries
    }
}

extension KeybagCopy {
    /// Retires the active class keys, adds a generation, and wraps all that is kept under another keybag key.
    ///
    /// The caller has seen that there is room for it, and a generation left. An entry of a reserved kind may hold anything: what is no
    /// wrap under the old keybag key is kept as it is.
    /// - Throws: `unwrapFailed` if a class key of a known kind does not open.
    package mutating func rotateKeys(
        from old: borrowing KeybagKey, to new: borrowing KeybagKey, _ device: borrowing DeviceKey
    ) throws(KeyError) {
        let generation = newestGeneration + 1
        for index in entries.indices {
            let isKnown = name(of: entries[index]) != nil
            do throws(KeyError) { entries[index].wrapped = try old.rewrap(entries[index].wrapped, under: new) } catch {
                guard !isKnown, error == .unwrapFailed else { throw error }
            }
            guard isKnown else { continue }
            entries[index].state = .retired
            entries[index].publicHalf = entries[index].publicHalf?.retired
        }
        entries += try ClassKeyEntry.generation(generation, under: new, device)
    }
}
