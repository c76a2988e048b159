import DurableFiles
import Glibc
import ProtectionKeys
import SystemPackage

/// Keybags once used, by UUID: links in `$XDG_STATE_HOME/protectfs/keybags`.
extension Keybag {
    /// The keybag of that name, as `remembered(_:warn:)` of the layer above returns it.
    package static func remembered(
        _ uuid: KeybagUUID, followUp: LockFollowUp, warn: @escaping @Sendable (ProtectionWarning) -> Void
    ) throws(DataProtectionError) -> Keybag {
        guard let directory = target(of: uuid) else {
            throw .keybagNotFound(Locations.registry.appending(uuid.description))
        }
        let keybag = try Keybag(at: directory, followUp: followUp, warn: warn)
        guard keybag.uuid == uuid else { throw .keybagNotFound(keybag.directory) }
        return keybag
    }

    /// Takes remnants out of the ring: keys of keybags once used here that have expired, because whoever armed their lock has
    /// died. Nobody can read them, but the kernel may hold their payload up to `gc_delay`, 300 s.
    package static func clearRemnants() {
        for uuid in (try? rememberedUUIDs()) ?? [] {
            if let directory = target(of: uuid) { RingKeys(uuid).clearExpired(in: directory) }
        }
    }

    /// The keybags that were once used here.
    package static func rememberedUUIDs() throws(DataProtectionError) -> [KeybagUUID] {
        try DirectoryListing.namesIfThere(in: Locations.registry).compactMap { KeybagUUID(text: $0) }
    }

    /// Notes where this keybag is. That it fails keeps nobody from using the keybag.
    package func remember() {
        let link = Locations.registry.appending(uuid.description)
        let temporary = Locations.registry.appending(".\(uuid).\(getpid()).\(UInt64.random(in: 0...UInt64.max))")
        do throws(DataProtectionError) {
            try OwnDirectory.make(Locations.registry)
            let target = try directory.absolute()
            _ = try retrying(link, "symlink") {
                target.withPlatformString { target in temporary.withPlatformString { symlink(target, $0) } }
            }
            try AtomicReplace.rename(temporary, to: link)
        } catch {
            try? AtomicReplace.remove(temporary)
            warn(.notRemembered(uuid, error))
        }
    }

    /// The keybags that were last used in `directory`.
    package static func rememberedUUIDs(leadingTo directory: FilePath) throws(DataProtectionError) -> [KeybagUUID] {
        try rememberedUUIDs().filter { uuid in
            guard let target = target(of: uuid) else { return false }
            return target == directory || isSame(target, directory)
        }
    }

    /// The rings of keybags that were used in this directory before another one took their place, and still hold class keys A and B. No
    /// file says any more that they are there.
    package static func ringsOfPredecessors(
        of uuid: KeybagUUID, in directory: FilePath
    ) throws(DataProtectionError) -> [(uuid: KeybagUUID, ring: RingKeys)] {
        try rememberedUUIDs(leadingTo: try directory.absolute()).filter { $0 != uuid }
            .map { (uuid: $0, ring: RingKeys($0)) }.filter(\.ring.holdsUnlocked)
    }

    /// Evicts their keys: nobody else would.
    ///
    /// - Throws: the last error, after all have been tried.
    package func evictPredecessors() throws(DataProtectionError) {
        var failure: DataProtectionError?
        for predecessor in try Self.ringsOfPredecessors(of: uuid, in: directory) {
            do throws(DataProtectionError) { try predecessor.ring.evict() } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Whether a keybag was once used in that directory, which may be gone by now. An erased one does not count.
    ///
    /// - Parameter uuid: of that name; nil: of any.
    package static func wasUsed(in directory: FilePath, as uuid: KeybagUUID? = nil) -> Bool {
        guard let place = try? directory.absolute(), let found = try? rememberedUUIDs(leadingTo: place) else {
            return false
        }
        return uuid.map { found.contains($0) } ?? !found.isEmpty
    }

    /// Whether two names lead to one directory that is there.
    private static func isSame(_ one: FilePath, _ other: FilePath) -> Bool {
        var (first, second) = (stat(), stat())
        guard one.withPlatformString({ stat($0, &first) }) == 0, other.withPlatformString({ stat($0, &second) }) == 0
        else { return false }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }

    /// Where the keybag was last used; nil if it never was.
    package static func target(of uuid: KeybagUUID) -> FilePath? {
        let link = Locations.registry.appending(uuid.description)
        var target = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = link.withPlatformString { readlink($0, &target, target.count - 1) }
        return count > 0 ? target.withUnsafeBufferPointer { FilePath(platformString: $0.baseAddress!) } : nil
    }
}
