import DurableFiles
import Glibc
import KernelKeyring
import Keybags
import ProtectionFormat
import ProtectionKeys
public import SystemPackage

/// What can go wrong around a keybag that shows only when it is needed. Reads everything and changes nothing.
public struct KeybagHealth: Sendable {
    /// Its files, or why they are no keybag.
    public let inspection: Result<KeybagInspection, DataProtectionError>
    /// Whether the device key is there and the right one; nil if it is.
    public private(set) var deviceKeyProblem: DataProtectionError?
    /// How many of the two sectors of `attempts` are valid; nil if the file cannot be read.
    public private(set) var validAttemptSectors: Int?
    /// Notes of class changes that somebody began who is dead; nil if they cannot be listed.
    public private(set) var unfinishedClassChanges: Int?

    /// What is known of a recovery export.
    public enum Export: Sendable, Hashable {
        /// None was made from here.
        case never
        /// When the last one was made, in seconds since 1970, and whether the keybag has been changed since: passcode and
        /// recovery code of that day may not be those of today.
        case made(UInt64, isOutdated: Bool)
    }
    /// Whether the keybag was exported for safe keeping.
    public private(set) var export = Export.never

    /// Why a class key that is in the kernel keyring cannot be read; nil if all that are there can.
    public private(set) var ringProblem: Errno?
    /// Whether class keys A and B private are in the kernel keyring: files can be read, and saved, even if no passcode opens the keybag
    /// any more.
    public private(set) var isUnlocked = false
    /// The highest generation of class keys in the kernel keyring, if the keybag holds none that high: an older copy of the keybag was put
    /// back.
    public private(set) var newerGeneration: UInt32?
    /// The same, if a rotation that did not come to its end had loaded them: no file is under them.
    public private(set) var interruptedRotation: UInt32?
    /// Keybags that were used in this directory before this one took their place, and whose class keys A and B are still in the kernel
    /// keyring.
    public private(set) var loadedPredecessors: [KeybagUUID] = []
    /// Whether a keybag was used in this directory that is not there any more.
    public let isGone: Bool

    /// Looks at the keybag in `directory`.
    public init(of directory: FilePath) {
        isGone = KeybagRegistry.wasUsed(in: directory) && !OwnDirectory.exists(directory)
        do throws(DataProtectionError) {
            let inspection = try KeybagInspection(ofDirectory: directory)
            self.inspection = .success(inspection)
            validAttemptSectors = AttemptFile(directory: directory, keybag: inspection.uuid).validSectors()
            let ring = RingKeys(inspection.uuid)
            ringProblem = ring.unreadable()
            isUnlocked = (try? ring.unlocked.find()) != nil
            loadedPredecessors =
                (try? KeybagRegistry.ringsOfPredecessors(of: inspection.uuid, in: directory).map(\.uuid)) ?? []
            let newest = inspection.entries.filter { $0.protectionClass != nil }.map(\.generation).max() ?? 0
            if let loaded = ring.newestGeneration(), loaded > newest {
                if ring.unfinishedRotation != loaded {
                    newerGeneration = loaded
                } else if TransitionFile(directory: directory).readAtRest() != nil {
                    interruptedRotation = loaded  // else it is under way
                }
            }
            if let record = ExportRecord(in: directory) {
                export = .made(record.time, isOutdated: record.sequence != inspection.sequence)
            }
            do throws(DataProtectionError) {
                _ = try DeviceKeyFile().load(for: KeybagFile(directory: directory).load().copy, in: directory)
            } catch {
                deviceKeyProblem = error
            }
        } catch {
            inspection = .failure(error)
        }
        unfinishedClassChanges = try? ClassChangeIntent.unfinishedCount(in: directory)
    }
}

extension AttemptFile {
    /// How many sectors count; nil if there is no file to read.
    fileprivate func validSectors() -> Int? {
        guard let file = try? LowerFile(regular: directory.appending(Self.name), flags: O_RDONLY | O_NOFOLLOW),
            let bytes = try? file.bytes(at: 0, count: 2 * AttemptRecord.length)
        else { return nil }
        return [bytes.prefix(AttemptRecord.length), bytes.dropFirst(AttemptRecord.length)].count { sector in
            (try? AttemptRecord(decoding: Array(sector)))?.keybag == keybag
        }
    }
}

extension RingKeys {
    /// Of what is loaded; nil if nothing is.
    fileprivate func newestGeneration() -> UInt32? {
        var newest: UInt32?
        for key in [unlocked, firstUnlock] {
            var serial: KeySerial?
            guard let payload = try? Self.payload(of: key, serial: &serial) else { continue }
            guard let found = payload.withUnsafeBytes({ RingPayload.newestGeneration($0) }) else { continue }
            newest = max(newest ?? 0, found)
        }
        return newest
    }

    /// The error of a key that is there and cannot be read.
    fileprivate func unreadable() -> Errno? {
        for key in [unlocked, firstUnlock] {
            do throws(Errno) {
                var nothing = SecretBytes(zeroed: 1)
                let found = try key.find()
                _ = try nothing.withUnsafeMutableBytes { bytes throws(Errno) in try found.read(into: bytes) }
            } catch {
                let isGone = [Errno.requiredKeyNotAvailable, .keyRevoked, .keyExpired].contains(error)
                if !isGone { return error }
            }
        }
        return nil
    }
}

extension ClassChangeIntent {
    /// How many notes nobody holds locked.
    fileprivate static func unfinishedCount(in keybag: FilePath) throws(DataProtectionError) -> Int {
        let directory = keybag.appending(directoryName)
        return try DirectoryListing.namesIfThere(in: directory).count { name in
            guard let note = try? LowerFile(regular: directory.appending(name), flags: O_RDONLY | O_NOFOLLOW) else {
                return false
            }
            return flock(note.descriptor, LOCK_SH | LOCK_NB) == 0
        }
    }
}
