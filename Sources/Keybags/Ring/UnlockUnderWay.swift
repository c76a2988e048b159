import DurableFiles
import Glibc
import KernelKeyring
import ProtectionKeys
import SystemPackage

/// An unlock that is under way, as the locks of this user see it: a key in the user keyring that names the keybag's directory. FORMAT.md §2.5.
///
/// The order of locks and unlocks is kept in the keybag's directory. But all copies of a keybag have one ring, and the registry knows one of their
/// directories at most. So an unlock notes its directory before it reads the lock counter, and a lock raises the counter in every directory that is
/// noted. It works where no registry can be written, and leaves nothing on a disk. A note is no secret and opens nothing.
package struct UnlockUnderWay: Sendable {
    package static let prefix = "protectfs-unlocking:"
    /// When the kernel removes what a killed unlock leaves. An unlock that takes longer loads nothing.
    private static let lifetime: UInt32 = 600

    package let key: RingKey
    private let serial: KeySerial

    /// Notes it. To be called before the lock counter is read.
    ///
    /// - Throws: `keyringUnavailable`; `system` if the directory has no absolute path.
    package init(of keybag: KeybagUUID, in directory: FilePath) throws(DataProtectionError) {
        let number = UInt64.random(in: 0...UInt64.max)
        let key = RingKey(description: "\(Self.prefix)\(keybag):\(String(number, radix: 16))")
        let path = try directory.absolute().bytes
        do throws(Errno) {
            serial = try RingWriter.run { () throws(Errno) in
                let loaded = path.withUnsafeBytes { path in
                    Result { () throws(Errno) in try key.load(path, seconds: Self.lifetime) }
                }
                return try loaded.get()
            }
        } catch {
            throw .because(KeybagFailure.keyringUnavailable(error))
        }
        self.key = key
    }

    /// Whether locks see it still. Another key of this name is not it.
    package var isNoted: Bool { (try? key.find()) == serial }

    /// It is over, whatever came of it.
    package func end() { try? KeySerial.userKeyring.unlink(serial) }

    // MARK: locks

    /// The keybags that are being unlocked, each once.
    package static func keybags() throws(DataProtectionError) -> Set<KeybagUUID> {
        do throws(Errno) { return Set(try notes().map(\.keybag)) } catch {
            throw .because(KeybagFailure.keyringUnavailable(error))
        }
    }

    /// Raises the lock counter wherever this keybag is being unlocked, so that no unlock which has begun loads keys. Keys that one of them has
    /// loaded before are for the caller to evict, afterwards.
    ///
    /// - Parameter own: the directory in which the caller takes its turn itself.
    /// - Returns: `lockUnproven` if one of them may load keys all the same, or `keyringUnavailable`; the others are stopped even so.
    package static func stop(_ keybag: KeybagUUID, outside own: FilePath? = nil) -> DataProtectionError? {
        let directories: Set<FilePath>
        do throws(Errno) {
            directories = Set(try notes().filter { $0.keybag == keybag && $0.directory != own }.map(\.directory))
        } catch {
            return .because(KeybagFailure.keyringUnavailable(error))
        }
        var failure: DataProtectionError?
        for directory in directories {
            do throws(DataProtectionError) { try stop(keybag, in: directory) } catch { failure = error }
        }
        return failure
    }

    /// Ends the notes of unlocks there: one that has noted itself and reads the counter only now loads nothing either. To be called within the
    /// turn of a lock that is proven.
    package static func end(_ keybag: KeybagUUID, in directory: FilePath?) {
        for note in (try? notes()) ?? [] where note.keybag == keybag && note.directory == directory {
            try? note.serial.invalidate()  // unlinked alone, it could be put back. It may have ended meanwhile
            try? KeySerial.userKeyring.unlink(note.serial)
        }
    }

    private static func stop(_ keybag: KeybagUUID, in directory: FilePath) throws(DataProtectionError) {
        let turn: LockTurn
        do throws(DataProtectionError) {
            try OwnDirectory.requireOwner(of: directory)
            let transition = TransitionFile(directory: directory)
            let endNotes = { end(keybag, in: directory) }
            turn = try transition.lockTurn(makesFile: false, proven: endNotes) { _ throws(DataProtectionError) in }
        } catch {
            throw .because(KeybagFailure.lockUnproven(keybag: directory, .unwritable(error.errno)))
        }
        try turn.requireProof(of: directory)
    }

    private static func notes() throws(Errno) -> [(serial: KeySerial, keybag: KeybagUUID, directory: FilePath)] {
        try KeySerial.userKeyring.members().compactMap { serial in
            guard let description = serial.keyDescription(), description.hasPrefix(prefix),
                let keybag = KeybagUUID(text: description.dropFirst(prefix.count).prefix(36)),
                let directory = directory(in: serial)
            else { return nil }
            return (serial, keybag, directory)
        }
    }

    /// - Returns: nil if the unlock has ended meanwhile.
    private static func directory(in note: KeySerial) -> FilePath? {
        var path = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = path.withUnsafeMutableBytes { path in try? note.read(into: path) }
        guard let count, count > 0, count <= path.count, !path[..<count].contains(0) else { return nil }
        return FilePath(bytes: Array(path[..<count]))
    }
}
