import DurableFiles
import Glibc
import SystemPackage

/// A process that has files of class A or B open and could not say so by a ``ClientFile``, for example on a full disk. It holds a lock on a file of
/// the keybag instead, which needs no room. A lock of the keybag does not know what it has, and cannot ask it.
final class UnnotedClient: Sendable {
    private let name: String
    private let file: LowerFile

    /// Behind everything that the files hold.
    private static let byte: off_t = 1 << 40
    /// Neither need be there on a read-only medium.
    private static let names = [TransitionFile.name, "keybag.0", "keybag.1"]

    /// Nil where no file can be locked.
    init?(ofKeybag keybag: FilePath) {
        for name in Self.names {
            guard let file = Self.file(name, keybag), (try? file.tryByteLock(Self.byte, .shared)) == true else {
                continue
            }
            (self.name, self.file) = (name, file)
            return
        }
        return nil
    }

    /// Whether there is one of a keybag in any other process.
    ///
    /// - Parameter own: that of this process, whose lock is none for the file that has it.
    static func isThere(inKeybag keybag: FilePath, besides own: UnnotedClient?) -> Bool {
        names.contains { name in
            let file = own?.name == name ? own?.file : self.file(name, keybag)
            return (try? file?.isLockedElsewhere(byte, for: .exclusive)) == true
        }
    }

    private static func file(_ name: String, _ keybag: FilePath) -> LowerFile? {
        name == TransitionFile.name
            ? TransitionFile.forLongLocks(ofKeybag: keybag)
            : try? LowerFile(keybag.appending(name), flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    }
}
