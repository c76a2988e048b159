import Glibc
public import SystemPackage

/// A named key in the user keyring that all sessions of this uid read, and that can be made to vanish.
public struct RingKey: Hashable, Sendable {
    /// What the kernel knows it by. `/proc/keys` shows it, so it holds nothing secret.
    public let description: String

    public init(description: String) { self.description = description }

    /// Possessor all; uid view, read, search, setattr. Others, and root as itself, nothing.
    public static let permissions: UInt32 = 0x3F2B_0000

    /// Finds the key. In every state but *here* this throws; see ``isAbsent(_:)``.
    public func find() throws(Errno) -> KeySerial {
        do throws(Errno) { return try KeySerial.userKeyring.search(description) } catch .keyRevoked {
            // The search met a key that is being replaced. The new one is there already.
            return try KeySerial.userKeyring.search(description)
        }
    }

    /// Whether a key is there, or may be, that this process may not search for or read (EACCES).
    public var isUnreadable: Bool {
        var byte: UInt8 = 0
        return withUnsafeMutableBytes(of: &byte) { byte in
            do throws(Errno) { _ = try find().read(into: byte) } catch {
                return error == .permissionDenied || (error == .requiredKeyNotAvailable && isHidden)
            }
            return false
        }
    }

    /// Whether the key may be there although a search says ENOKEY: the kernel says so also of a user keyring that may not be searched.
    public var isHidden: Bool {
        func listed() -> Set<KeySerial>? {
            (try? KeySerial.userKeyring.members()).map { Set($0.filter { $0.keyDescription() == description }) }
        }
        if KeySerial.userKeyring.isSearchable { return false }
        guard let before = listed() else { return true }
        if before.isEmpty { return false }
        do throws(Errno) { _ = try find() } catch {
            guard error == .requiredKeyNotAvailable, let after = listed() else { return true }
            // A key that was there all the time, and not one that another process loads or evicts at this moment.
            return !before.isDisjoint(with: after)
        }
        return false
    }

    /// Those of `keys` that are in the user keyring of another user namespace: `/proc/keys` shows a living key of that name which is not in this
    /// process's user keyring.
    ///
    /// A key that is being loaded, or whose process has just ended, is seen so for a moment. It takes a second to be sure, for all of them together;
    /// nothing where none is seen.
    ///
    /// - Throws: why `/proc/keys` could not be read, if it is there and may be.
    public static func elsewhere(_ keys: [RingKey]) throws(Errno) -> [RingKey] {
        let names = Set(keys.map(\.description))
        func seen() throws(Errno) -> [KeySerial: String] {
            let living = try ProcKeys.userKeys(where: names.contains).filter { !$0.isDead }
            if living.isEmpty { return [:] }
            let here = Set((try? KeySerial.userKeyring.members()) ?? [])
            return Dictionary(
                uniqueKeysWithValues: living.filter { !here.contains($0.serial) }.map { ($0.serial, $0.description) })
        }
        var staying = try seen()
        for _ in 1...20 where !staying.isEmpty {
            usleep(50_000)
            let now = try seen()
            staying = staying.filter { now.keys.contains($0.key) }
        }
        let found = Set(staying.values)
        return keys.filter { found.contains($0.description) }
    }

    /// Whether an error of ``find()`` or of reading means: not here. EACCES: a key left half made is nobody's to read.
    public static func isAbsent(_ error: Errno) -> Bool {
        [.requiredKeyNotAvailable, .keyRevoked, .keyExpired, .permissionDenied].contains(error)
    }

    /// Puts `payload` under this name, readable by every session of the uid, in place of what is there.
    ///
    /// The key is made where only this thread sees it, and linked into the user keyring when it has its permissions and its
    /// timeout: at no moment is there a key that stays for longer or is readable by others. What was there before, somebody
    /// else's key too, is invalidated, so that none of it is read by its serial, and none comes back to life.
    /// Call within ``RingWriter/run(_:)``.
    /// - Parameter seconds: when the kernel lets it expire; 0: never.
    @discardableResult
    public func load(_ payload: UnsafeRawBufferPointer, seconds: UInt32 = 0) throws(Errno) -> KeySerial {
        var before: KeySerial?
        do throws(Errno) {
            before = try find()
        } catch .requiredKeyNotAvailable {
        } catch {
            try evict()
        }
        let key = try KeySerial.threadKeyring.add(description, payload: payload)
        defer { try? KeySerial.threadKeyring.unlink(key) }  // ends with the thread anyway
        try key.setPermissions(Self.permissions)
        if seconds > 0 { try key.setTimeout(seconds: seconds) }
        try KeySerial.userKeyring.link(key)
        try? before?.invalidate()  // in no keyring any more: at worst the kernel's collector comes first
        return key
    }

    /// Removes the key: unlinks it, invalidates it, and looks again.
    ///
    /// Call within ``RingWriter/run(_:)``. Returns when the search says ENOKEY and nothing else, and the keyring's list agrees.
    /// - Throws: the last error, if the key is still there.
    public func evict() throws(Errno) {
        var lastError = Errno.requiredKeyNotAvailable
        for _ in 0..<8 {
            do throws(Errno) {
                remove(try find())
            } catch .requiredKeyNotAvailable {
                guard isHidden else { return }
                lastError = .permissionDenied
                usleep(2000)  // another process may be about to unlink a key that it has invalidated
            } catch .keyExpired {
                // The search does not name an expired key. Giving it a payload does, and wipes the old one.
                lastError = .keyExpired
                if let key = try? displace() { remove(key) }
            } catch .keyRevoked {
                lastError = .keyRevoked
                if let key = try? displace() { remove(key) }
            } catch {
                lastError = error
                if let key = try? displace() { remove(key) }
            }
        }
        throw lastError
    }

    /// Arms (or, with 0, disarms) the kernel's own timeout of the key. Call within ``RingWriter/run(_:)``.
    public func setTimeout(seconds: UInt32) throws(Errno) { try find().setTimeout(seconds: seconds) }

    /// In how many seconds the kernel lets the key expire, as exactly as `/proc/keys` tells: in the last minute to a second, in the last hour to a
    /// minute, and so on. Nil if it stays, is not here, or there is no `/proc/keys`.
    ///
    /// - Throws: why `/proc/keys` could not be read, if it is there and may be.
    public func timeLeft() throws(Errno) -> Range<UInt64>? {
        guard let serial = try? find() else { return nil }
        return try ProcKeys.userKeys { $0 == description }.first { $0.serial == serial }?.timeLeft
    }

    /// Every description in the user keyring that begins with `prefix`, dead keys included where `/proc/keys` shows them.
    public static func descriptions(withPrefix prefix: String) throws(Errno) -> Set<String> {
        let living = try KeySerial.userKeyring.members().compactMap { $0.keyDescription() }
        // An eviction must not fail here: it finds the living keys without the list.
        let listed = ((try? ProcKeys.userKeys { $0.hasPrefix(prefix) }) ?? []).map(\.description)
        return Set(listed + living.filter { $0.hasPrefix(prefix) })
    }

    /// Removes expired and revoked keys from the user keyring. The kernel then wipes their payloads at once.
    ///
    /// Each is removed by its serial: a key that somebody loads under the same description at this moment stays. Where `/proc/keys` cannot be
    /// read, as in many containers, none is removed, and the kernel's collector does it after `gc_delay` seconds.
    ///
    /// - Parameter isWanted: gets the description of each dead key, and says whether it goes.
    public static func removeDead(where isWanted: (String) -> Bool) {
        for key in (try? ProcKeys.userKeys(onlyDead: true, where: isWanted)) ?? [] {
            try? KeySerial.userKeyring.unlink(key.serial)  // fails for one that is in another keyring
        }
    }

    private func remove(_ key: KeySerial) {
        // Unlinked, it is found no more, and the keyring's quota comes back: the kernel's collector, which takes dead keys out
        // of keyrings, keeps the four bytes that a link costs until the next start. Invalidated, its payload goes also for
        // processes that know its serial; for that this thread has to possess it still. The search afterwards is the judge.
        let isPossessed = (try? KeySerial.threadKeyring.link(key)) != nil
        if isPossessed { try? KeySerial.userKeyring.unlink(key) }
        try? key.invalidate()
        if !isPossessed { try? KeySerial.userKeyring.unlink(key) }
        try? KeySerial.threadKeyring.unlink(key)  // ends with the thread anyway
    }

    private func displace() throws(Errno) -> KeySerial {
        var nothing: UInt8 = 0
        let result: Result<KeySerial, Errno> = withUnsafeBytes(of: &nothing) { payload in
            do throws(Errno) {
                return .success(try KeySerial.userKeyring.add(description, payload: payload))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}
