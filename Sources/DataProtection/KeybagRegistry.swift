import Glibc
public import ProtectionKeys
import SystemPackage

/// Keybags once used, by UUID: links in `$XDG_STATE_HOME/protectfs/keybags`.
extension Keybag {
    /// The keybag of that name, if it was used on this machine and is there.
    ///
    /// - Throws: `keybagNotFound` if it was never used, or its disk is not there.
    public static func remembered(
        _ uuid: KeybagUUID, warn: @escaping @Sendable (ProtectionWarning) -> Void = { _ in }
    ) throws(DataProtectionError) -> Keybag {
        let link = Locations.registry.appending(uuid.description)
        var target = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = link.withPlatformString { readlink($0, &target, target.count - 1) }
        guard count > 0 else { throw .keybagNotFound(link) }
        let directory = target.withUnsafeBufferPointer { FilePath(platformString: $0.baseAddress!) }
        let keybag = try Keybag(at: directory, warn: warn)
        guard keybag.uuid == uuid else { throw .keybagNotFound(keybag.directory) }
        return keybag
    }

    /// The keybags that were once used here.
    static func rememberedUUIDs() -> [KeybagUUID] {
        ((try? DirectoryListing.names(of: Locations.registry)) ?? []).compactMap { KeybagUUID(text: $0) }
    }

    /// Notes where this keybag is. That it fails keeps nobody from using the keybag.
    func remember() {
        let link = Locations.registry.appending(uuid.description)
        let temporary = Locations.registry.appending(".\(uuid).\(getpid()).\(UInt64.random(in: 0...UInt64.max))")
        do throws(DataProtectionError) {
            try OwnDirectory.make(Locations.registry)
            let target = try absolute(directory)
            _ = try retrying(link, "symlink") {
                target.withPlatformString { target in temporary.withPlatformString { symlink(target, $0) } }
            }
            try AtomicReplace.rename(temporary, to: link)
        } catch {
            try? AtomicReplace.remove(temporary)
            warn(.notRemembered(uuid, error))
        }
    }

    private func absolute(_ path: FilePath) throws(DataProtectionError) -> FilePath {
        if path.isAbsolute { return path }
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        guard getcwd(&buffer, buffer.count) != nil else {
            throw .system(path, operation: "getcwd", Errno(rawValue: errno))
        }
        return buffer.withUnsafeBufferPointer { FilePath(platformString: $0.baseAddress!) }.pushing(path)
    }
}
