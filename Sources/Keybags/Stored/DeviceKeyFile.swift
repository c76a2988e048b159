import DurableFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Where a device key comes from. A TPM can stand here later.
package protocol DeviceKeySource: Sendable {
    /// The device key of this keybag.
    ///
    /// - Throws: `otherDevice` if none is there, or one of another keybag's device; `deviceKeyUnusable` if what is there cannot be used, or nobody
    ///   can tell whether anything is.
    func load(for keybag: KeybagCopy, in directory: FilePath) throws(DataProtectionError) -> DeviceKey

    /// The device key that a keybag gets that is recovered here: its own where that is there, else this machine's.
    func own(for keybag: KeybagCopy) throws(DataProtectionError) -> OwnDeviceKey
}

/// A device key and where it is.
package struct OwnDeviceKey: ~Copyable {
    package let key: DeviceKey
    /// Absolute, at most 4,095 bytes.
    package let path: FilePath
}

/// The device key as 32 bytes in a file: never in a keybag directory, never in a backup.
package struct DeviceKeyFile: DeviceKeySource {
    package init() {}

    package func load(for keybag: KeybagCopy, in directory: FilePath) throws(DataProtectionError) -> DeviceKey {
        let recorded = FilePath(bytes: keybag.devicePath)
        // Where nobody can tell whether it is there, the one at its usual place may be the right one all the same.
        var failure = DataProtectionError.because(KeybagFailure.otherDevice(keybag: directory, deviceKey: recorded))
        var isThere = false
        do throws(DataProtectionError) { isThere = try Self.isThere(recorded) } catch { failure = error }
        let path = isThere ? recorded : Locations.deviceKey
        if !isThere, try !Self.isThere(path) { throw failure }
        let key = try Self.read(path)
        let id = try withKeys { () throws(KeyError) in try key.id(for: keybag.uuid) }
        guard areEqualInConstantTime(id, keybag.deviceID) else {
            if case .because(KeybagFailure.deviceKeyUnusable) = failure { throw failure }
            throw .because(KeybagFailure.otherDevice(keybag: directory, deviceKey: path))
        }
        return key
    }

    /// - Throws: `deviceKeyUnusable` where that is unknown, for example because a directory above may not be searched.
    private static func isThere(_ path: FilePath) throws(DataProtectionError) -> Bool {
        if path.withPlatformString({ access($0, F_OK) }) == 0 { return true }
        let error = Errno(rawValue: errno)
        if error == .noSuchFileOrDirectory || error == .notDirectory { return false }
        throw .because(KeybagFailure.deviceKeyUnusable(path, reason: "it cannot be looked for: \(error)"))
    }

    package func own(for keybag: KeybagCopy) throws(DataProtectionError) -> OwnDeviceKey {
        for path in [FilePath(bytes: keybag.devicePath), Locations.deviceKey] {
            // One that cannot be used is none: the code is there for that.
            guard let key = try? Self.read(path) else { continue }
            let id = try withKeys { () throws(KeyError) in try key.id(for: keybag.uuid) }
            if areEqualInConstantTime(id, keybag.deviceID) { return OwnDeviceKey(key: key, path: path) }
        }
        return try Self.own(at: Locations.deviceKey)
    }

    /// The device key at `path`, which is made if need be, for a keybag that is going to record that path.
    package static func own(at path: FilePath) throws(DataProtectionError) -> OwnDeviceKey {
        guard path.isAbsolute, path.bytes.count <= 4095 else {
            throw .because(KeybagFailure.deviceKeyUnusable(path, reason: "its path is not absolute, or too long"))
        }
        return OwnDeviceKey(key: try readOrMake(path), path: path)
    }

    /// Reads the device key at `path`, or makes one.
    package static func readOrMake(_ path: FilePath) throws(DataProtectionError) -> DeviceKey {
        do throws(DataProtectionError) { return try read(path) } catch .system(_, _, .noSuchFileOrDirectory) {}
        let directory = path.removingLastComponent()
        try OwnDirectory.make(directory)
        let temporary = directory.appending(".device-key.\(getpid()).\(UInt64.random(in: 0...UInt64.max))")
        let key = try withKeys { () throws(KeyError) in try DeviceKey.random() }
        do throws(DataProtectionError) {
            let file = try LowerFile(temporary, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
            try key.withUnsafeBytes { bytes throws(DataProtectionError) in try file.write(bytes, at: 0) }
            try file.flushAll()
            // link(2), not rename: the second process to get here takes the first one's key.
            _ = try retrying(path, "link") {
                temporary.withPlatformString { old in path.withPlatformString { new in link(old, new) } }
            }
        } catch .system(_, "link", .fileExists) {
            try AtomicReplace.remove(temporary)
            return try read(path)
        } catch {
            try? AtomicReplace.remove(temporary)
            throw error
        }
        try AtomicReplace.remove(temporary)
        try AtomicReplace.flushDirectory(directory)
        return key
    }

    private static func openKey(_ path: FilePath) throws(DataProtectionError) -> LowerFile {
        do throws(DataProtectionError) {
            return try LowerFile(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        } catch .system(_, _, .tooManySymbolicLinkLevels) {
            throw .because(KeybagFailure.deviceKeyUnusable(path, reason: "it is a symbolic link"))
        } catch .system(_, _, .noSuchAddressOrDevice) {
            throw .because(KeybagFailure.deviceKeyUnusable(path, reason: "it is not a regular file"))
        }
    }

    /// The path may come from a keybag that nobody has authenticated yet, hence the checks.
    private static func read(_ path: FilePath) throws(DataProtectionError) -> DeviceKey {
        let file = try openKey(path)
        let status = try file.status()
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw .because(KeybagFailure.deviceKeyUnusable(path, reason: "it is not a regular file"))
        }
        guard status.st_uid == geteuid() else {
            throw .because(
                KeybagFailure.deviceKeyUnusable(path, reason: "it belongs to uid \(status.st_uid), not to you"))
        }
        guard status.st_mode & 0o077 == 0 else {
            throw .because(
                KeybagFailure.deviceKeyUnusable(path, reason: "others may read or write it: its mode must be 600"))
        }
        guard status.st_size == 32 else {
            throw .because(
                KeybagFailure.deviceKeyUnusable(path, reason: "it has \(status.st_size) bytes instead of 32"))
        }
        let secret = try SecretBytes(byteCount: 32) { slot throws(DataProtectionError) in
            guard try file.read(into: slot, at: 0) == 32 else {
                throw .because(KeybagFailure.deviceKeyUnusable(path, reason: "it ends early"))
            }
        }
        do throws(KeyError) { return try DeviceKey(secret: secret) } catch { throw .cryptography(error) }
    }
}
