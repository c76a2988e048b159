import DurableFiles
import Glibc
import KernelKeyring
import ProtectionKeys
import SystemPackage

/// Keybags once used, by UUID: links in `$XDG_STATE_HOME/protectfs/keybags`.
package enum KeybagRegistry {
    /// The keybag of that name, as `Keybag.remembered(_:warn:)` of the layer above returns it.
    package static func keybag(
        _ uuid: KeybagUUID, followUp: LockFollowUp, warn: @escaping @Sendable (ProtectionWarning) -> Void
    ) throws(DataProtectionError) -> Keybag {
        guard let directory = target(of: uuid) else {
            throw .because(KeybagFailure.keybagNotFound(Locations.registry.appending(uuid.description)))
        }
        let keybag = try Keybag(at: directory, followUp: followUp, warn: warn)
        guard keybag.uuid == uuid else { throw .because(KeybagFailure.keybagNotFound(keybag.directory)) }
        return keybag
    }

    /// Removes remnants from the ring: expired class keys of keybags once used here. They expire if the process that armed their lock has died.
    /// Nobody can read them, but the kernel may hold their payload for up to `gc_delay`, 300 s.
    ///
    /// The ring says what has expired, and the registry whether it is of a keybag that was used here. Every command begins with this, so no
    /// keybag's directory is looked at: it may be on a disk that hangs.
    package static func clearRemnants() {
        RingKey.removeDead { description in
            guard let uuid = RingKeys.keybag(of: description) else { return false }
            return target(of: uuid) != nil
        }
    }

    /// The keybags that were once used here.
    package static func uuids() throws(DataProtectionError) -> [KeybagUUID] {
        try DirectoryListing.namesIfThere(in: Locations.registry).compactMap { KeybagUUID(text: $0) }
    }

    /// Notes where a keybag is. That it fails keeps nobody from using the keybag.
    package static func note(_ keybag: Keybag) {
        let uuid = keybag.uuid
        let link = Locations.registry.appending(uuid.description)
        let temporary = Locations.registry.appending(".\(uuid).\(getpid()).\(UInt64.random(in: 0...UInt64.max))")
        do throws(DataProtectionError) {
            try OwnDirectory.make(Locations.registry)
            let target = try keybag.directory.absolute()
            _ = try retrying(link, "symlink") {
                target.withPlatformString { target in temporary.withPlatformString { symlink(target, $0) } }
            }
            try AtomicReplace.rename(temporary, to: link)
        } catch {
            try? AtomicReplace.remove(temporary)
            keybag.warn(.notRemembered(uuid, error))
        }
    }

    /// The keybags that were last used in `directory`. Other file systems are not looked at, because they may hang: a link that leads to the
    /// directory by a path through another mount is not found.
    ///
    /// - Parameter isWanted: asked first, so that no path is looked at for nothing.
    package static func uuids(
        leadingTo directory: FilePath, where isWanted: (KeybagUUID) -> Bool = { _ in true }
    ) throws(DataProtectionError) -> [KeybagUUID] {
        let targets = try uuids().filter(isWanted).compactMap { uuid in
            target(of: uuid).map { (uuid: uuid, path: $0) }
        }
        let mount = targets.contains { $0.path != directory } ? MountOfDirectory(directory) : nil
        return targets.filter { $0.path == directory || mount?.leads($0.path) == true }.map(\.uuid)
    }

    /// Evicts class keys A and B of the keybags that were last used under this very path. Nothing of the directory is looked at: it may be on a
    /// disk that hangs.
    ///
    /// - Returns: whether there were any.
    package static func evictKeys(ofKeybagsUnder directory: FilePath) -> Bool {
        guard let path = try? directory.absolute(), let uuids = try? uuids() else { return false }
        var found = false
        for uuid in uuids where target(of: uuid) == path && RingKeys(uuid).holdsUnlocked {
            found = true
            try? RingKeys(uuid).evict()  // the lock that follows tries again, and says why
        }
        return found
    }

    /// The rings of keybags that were used in this directory before another one took their place, and still hold class keys A and B. No
    /// file says any more that they are there.
    package static func ringsOfPredecessors(
        of uuid: KeybagUUID, in directory: FilePath
    ) throws(DataProtectionError) -> [(uuid: KeybagUUID, ring: RingKeys)] {
        try uuids(leadingTo: try directory.absolute()) { $0 != uuid && RingKeys($0).holdsUnlocked }
            .map { (uuid: $0, ring: RingKeys($0)) }
    }

    /// Refuses to trust the device key alone for a keybag not unlocked since the machine started, if another keybag was unlocked in the same
    /// directory since then. An attacker who can write only the keybag's directory may have put this keybag there, with a device key of their own.
    ///
    /// - Throws: `keybagUnsafe`, `system`.
    package static func refuseReplaced(_ keybag: Keybag) throws(DataProtectionError) {
        let place = try keybag.directory.absolute()
        let others = try uuids(leadingTo: place) { $0 != keybag.uuid && (try? RingKeys($0).firstUnlock.find()) != nil }
        guard let other = others.first else { return }
        throw .keybagUnsafe(
            keybag.directory,
            reason:
                "keybag \(other) was unlocked here since the machine started, and keybag \(keybag.uuid), which has its place, was not"
        )
    }

    /// Evicts their keys: nobody else would.
    ///
    /// - Throws: the last error, after all have been tried.
    package static func evictPredecessors(of keybag: Keybag) throws(DataProtectionError) {
        var failure: DataProtectionError?
        for predecessor in try ringsOfPredecessors(of: keybag.uuid, in: keybag.directory) {
            do throws(DataProtectionError) { try predecessor.ring.evict() } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Whether a keybag was once used in that directory, which may be gone by now. An erased one does not count.
    ///
    /// - Parameter uuid: of that name; nil: of any.
    package static func wasUsed(in directory: FilePath, as uuid: KeybagUUID? = nil) -> Bool {
        guard let place = try? directory.absolute(), let found = try? uuids(leadingTo: place) else {
            return false
        }
        return uuid.map { found.contains($0) } ?? !found.isEmpty
    }

    /// Where the keybag was last used; nil if it never was.
    package static func target(of uuid: KeybagUUID) -> FilePath? {
        let link = Locations.registry.appending(uuid.description)
        var target = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = link.withPlatformString { readlink($0, &target, target.count - 1) }
        return count > 0 ? FilePath(platformString: target) : nil
    }
}
