import SystemPackage

/// New payloads for keys of the user keyring, which take the places of the old ones together, and give them back if something else fails.
///
/// All that takes key quota is made before anything changes, where only this thread sees it: the new keys, and a keyring that keeps the old ones.
/// After that a name is only linked to another key, which takes no quota. Payloads and timeouts of the old keys stay as they are.
///
///     let exchange = RingExchange()
///     try exchange.prepare(key, payload, seconds: 0)
///     try exchange.apply()
///     if failed { exchange.undo() } else { exchange.finish() }
///
/// Use it within one call of ``RingWriter/run(_:)``.
public final class RingExchange {
    private struct Change {
        let key: RingKey
        /// Nil: nothing had the name.
        let old: KeySerial?
        let new: KeySerial
    }
    private var changes: [Change] = []
    /// The new keys in the keyring of this thread, those of unfinished changes too.
    private var made: [KeySerial] = []
    /// Holds the old keys. The kernel forgets a key that is in no keyring.
    private var kept: KeySerial?

    /// With nothing exchanged yet.
    public init() {}

    deinit {
        // All of it ends with the thread, which may be the caller's.
        for key in made { try? KeySerial.threadKeyring.unlink(key) }
        if let kept { try? KeySerial.threadKeyring.unlink(kept) }
    }

    /// Makes the key that is to have this name, and keeps the one that has it now.
    ///
    /// - Parameter seconds: when the kernel lets the new key expire; 0: never.
    /// - Throws: `EDQUOT` where there is not enough key quota; `EKEYEXPIRED`, `EKEYREVOKED` if the old key is dead. Nothing has changed.
    public func prepare(_ key: RingKey, _ payload: UnsafeRawBufferPointer, seconds: UInt32 = 0) throws(Errno) {
        var old: KeySerial?
        do throws(Errno) { old = try key.find() } catch {
            guard error == .requiredKeyNotAvailable else { throw error }
        }
        if let old { try keep(old) }
        let new = try KeySerial.threadKeyring.add(key.description, payload: payload)
        made.append(new)
        try new.setPermissions(RingKey.permissions)
        if seconds > 0 { try new.setTimeout(seconds: seconds) }
        changes.append(Change(key: key, old: old, new: new))
    }

    private func keep(_ key: KeySerial) throws(Errno) {
        let keyring: KeySerial
        if let kept { keyring = kept } else { keyring = try KeySerial.threadKeyring.addKeyring("protectfs-kept") }
        kept = keyring
        try keyring.link(key)
    }

    /// Gives the names to the new keys, in the order in which they were prepared.
    ///
    /// - Throws: the first error. The names that had a key have it again then.
    public func apply() throws(Errno) {
        do throws(Errno) { for change in changes { try KeySerial.userKeyring.link(change.new) } } catch {
            undo()
            throw error
        }
    }

    /// Gives the names back to the old keys. A name that has been cleared or changed by somebody else meanwhile is left alone.
    public func undo() {
        for change in changes.reversed() {
            guard let now = try? change.key.find(), now == change.new else { continue }
            let isBack = change.old.map { (try? KeySerial.userKeyring.link($0)) != nil } ?? false
            // An old key that has expired meanwhile cannot be linked. The new one has the same timeout.
            if !isBack { try? KeySerial.userKeyring.unlink(change.new) }
            try? change.new.invalidate()
        }
    }

    /// Makes the old keys unusable for processes that know their serials.
    public func finish() {
        // They are in no shared keyring any more: what fails here is done by the kernel's collector.
        for change in changes { try? change.old?.invalidate() }
    }
}
