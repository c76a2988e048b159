import DurableFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// What came of locking every keybag of this user.
package struct LockedKeybags: Sendable {
    /// The keybags of which a key was in the ring.
    package let keybags: [KeybagUUID]
    /// Those of them that could be opened, whether their lock succeeded or not.
    package fileprivate(set) var opened: [Keybag] = []
    /// Those of them that could not be opened: their programs cannot be asked what they have.
    package fileprivate(set) var unopened: [KeybagUUID] = []
    /// Of the keybags that are not known to be locked.
    package fileprivate(set) var failures: [DataProtectionError] = []
    /// Keybags once used here whose directories belong to other users now. No key of theirs was in the ring.
    package fileprivate(set) var ofOthers: [Stranger] = []

    /// A keybag of another user that this user's registry still leads to.
    package struct Stranger: Hashable, Sendable {
        /// The link in the registry. Without it the keybag is not looked for any more.
        package let link: FilePath
        package let directory: FilePath
        package let owner: UInt32
    }
}

/// Locks that do not depend on an open keybag.
package struct LockOfUnopened {
    private let followUp: LockFollowUp

    package init(followUp: LockFollowUp) { self.followUp = followUp }

    /// Evicts the keys of every keybag in the ring of this user, as `Keybag.lockEach()` of the layer above does.
    package func each() throws(DataProtectionError) -> LockedKeybags {
        let found = try RingKeys.keybagsInRing()
        var locked = LockedKeybags(keybags: found)
        // All keys first: a keybag on a disk that hangs keeps no other one unlocked.
        let unlocked = found.filter { RingKeys($0).holdsUnlocked }
        for uuid in found { try? RingKeys(uuid).evict() }  // what fails is tried again
        var remembered: [KeybagUUID] = []
        do throws(DataProtectionError) { remembered = try KeybagRegistry.uuids() } catch {
            locked.failures.append(error)
        }
        // What is being unlocked for the first time is in neither.
        var begun: Set<KeybagUUID> = []
        do throws(DataProtectionError) { begun = try UnlockUnderWay.keybags() } catch { locked.failures.append(error) }
        var settled: [KeybagUUID] = []
        for uuid in begun.union(found).union(remembered).sorted(by: { $0.description < $1.description }) {
            do throws(DataProtectionError) {
                let keysWereThere = unlocked.contains(uuid)
                if let keybag = try? KeybagRegistry.keybag(uuid, followUp: followUp, warn: { _ in }) {
                    if found.contains(uuid) { locked.opened.append(keybag) }
                    _ = try keybag.lock(waiting: 0, keysWereThere: keysWereThere)
                } else {
                    if found.contains(uuid) { locked.unopened.append(uuid) }
                    if let stranger = try Self.lock(unopened: uuid, keysWereThere: keysWereThere) {
                        locked.ofOthers.append(stranger)
                    }
                    settled.append(uuid)
                }
            } catch {
                locked.failures.append(error)
            }
        }
        do throws(DataProtectionError) { locked.failures += try Self.staying(settled) } catch {
            locked.failures.append(error)
        }
        do throws(DataProtectionError) {
            try OwnDirectory.requireOneUser(for: Locations.keybag)
            // As with sudo(8) and the HOME of somebody else: then these are that user's keybags, and this is another user's ring.
            if OwnDirectory.exists(Locations.registry) { try OwnDirectory.requireOwner(of: Locations.registry) }
        } catch {
            locked.failures.append(error)
            locked.ofOthers = []
        }
        return locked
    }

    /// What people call it: its directory, or else its link in the registry.
    package static func name(of uuid: KeybagUUID) -> FilePath {
        KeybagRegistry.target(of: uuid) ?? Locations.registry.appending(uuid.description)
    }

    /// Locks a keybag by its name, as `Keybag.lock(_:)` of the layer above does.
    ///
    /// - Parameter keysWereThere: whether the caller has just evicted class keys A and B.
    package func lock(_ uuid: KeybagUUID, keysWereThere: Bool) throws(DataProtectionError) {
        // Where the keybag is there, its counter stops an unlock that is under way.
        if let keybag = try? KeybagRegistry.keybag(uuid, followUp: followUp, warn: { _ in }) {
            _ = try keybag.lock(waiting: 0, keysWereThere: keysWereThere)
        } else {
            _ = try Self.lock(unopened: uuid, keysWereThere: keysWereThere)
        }
    }

    /// - Returns: the keybag's directory, if that belongs to another user and no keys were there.
    /// - Throws: also `keybagUnsafe` if the directory belongs to another user and keys were there: in that user's ring they may be still.
    private static func lock(
        unopened uuid: KeybagUUID, keysWereThere: Bool
    ) throws(DataProtectionError) -> LockedKeybags.Stranger? {
        let keysAreThere = RingKeys(uuid).holdsUnlocked
        try? RingKeys(uuid).evict()
        let doubt = UnlockUnderWay.stop(uuid)
        try RingKeys(uuid).evict()
        let stranger = try settle(uuid, keysWereThere: keysWereThere || keysAreThere)
        if let doubt { throw doubt }
        return stranger
    }

    /// The same where the registry leads, for a keybag of which no keys are left.
    private static func settle(
        _ uuid: KeybagUUID, keysWereThere: Bool
    ) throws(DataProtectionError) -> LockedKeybags.Stranger? {
        guard let directory = KeybagRegistry.target(of: uuid) else { return nil }
        if let owner = OwnDirectory.owner(of: directory), owner != geteuid() {
            if keysWereThere { try OwnDirectory.requireOwner(of: directory) }
            let link = Locations.registry.appending(uuid.description)
            return LockedKeybags.Stranger(link: link, directory: directory, owner: owner)
        }
        // Another keybag may be there now.
        if let other = try? KeybagFile(directory: directory).usableUUID(), other != uuid { return nil }
        let doubt = try settle(unopened: directory) { () throws(DataProtectionError) in try RingKeys(uuid).evict() }
            .doubt
        if let doubt { throw .because(KeybagFailure.lockUnproven(keybag: directory, doubt)) }
        return nil
    }

    /// Stops an unlock that is under way of a keybag that cannot be opened, which an earlier look at it may have allowed, and looks
    /// for keys in other user namespaces. Call after all keybags have been locked; the keys that came meanwhile go too.
    ///
    /// - Parameter directory: the keybag's directory.
    /// - Returns: whether the record of namespaces can be read (if not, other keyrings may hold keys); and why an unlock that is under way may load
    ///   keys again, if it may.
    /// - Throws: `keysElsewhere`; `keybagUnsafe` if the directory belongs to another user; `lockIncomplete`, `keyringUnavailable`.
    package static func lock(
        unopened directory: FilePath
    ) throws(DataProtectionError) -> (areRingsKnown: Bool, doubt: LockDoubt?) {
        var found: Set<KeybagUUID> = []
        let settled = try settle(unopened: directory) { () throws(DataProtectionError) in
            for uuid in try RingKeys.keybagsInRing() {
                found.insert(uuid)
                try RingKeys(uuid).evict()
            }
        }
        // Of two reasons why it is no lock, the doubt is the worse one.
        if settled.doubt == nil, let failure = try staying(Array(found)).first { throw failure }
        return settled
    }

    /// Why those of `keybags` are not locked whose keys the kernel shows in other user namespaces.
    private static func staying(_ keybags: [KeybagUUID]) throws(DataProtectionError) -> [DataProtectionError] {
        try RingKeys.unlockedElsewhere(keybags).map {
            .because(KeybagFailure.keysElsewhere(keybag: name(of: $0), namespaces: []))
        }
    }

    private static func settle(
        unopened directory: FilePath, evict: () throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) -> (areRingsKnown: Bool, doubt: LockDoubt?) {
        let (transition, places) = (TransitionFile(directory: directory), RingPlaces(directory: directory))
        do throws(DataProtectionError) { try OwnDirectory.requireOwner(of: directory) } catch {
            // A directory that is not there may be on a disk that is away.
            if error.isAbsence { return (areRingsKnown: false, doubt: nil) }
            guard case .system(_, _, let errno) = error else { throw error }
            return (areRingsKnown: false, doubt: .unwritable(errno))
        }
        var turn: LockTurn?
        // Nothing is made where there is no keybag, nor where others may write: a name could be a second name of one of the user's
        // files there.
        if (try? KeybagFile(directory: directory).isAnythingThere()) ?? true {
            let isSafe = OwnDirectory.isOnlyOwners(directory)
            turn = try transition.lockTurn(makesFile: isSafe) { _ throws(DataProtectionError) in
                try evict()
                if isSafe { places.remove() }
            }
            // Programs and mounts that have the keybag open follow as after any lock.
            EventFile(of: directory).wake()
        }
        do throws(DataProtectionError) { try places.refuseElsewhere() } catch {
            if case .because(KeybagFailure.keysElsewhere) = error { throw error }
            return (areRingsKnown: false, doubt: turn?.doubt)
        }
        return (areRingsKnown: true, doubt: turn?.doubt)
    }
}
