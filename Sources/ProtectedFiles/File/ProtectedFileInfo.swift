import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

/// What a protected file says of itself in every lock state. Not authenticated: no key is asked for.
public struct ProtectedFileInfo: Hashable, Sendable {
    /// The class.
    public let protectionClass: ProtectionClass
    /// The plaintext size in bytes, unverified.
    public let size: Int64
    /// The keybag that the file belongs to.
    public let keybag: KeybagUUID
    /// The generation of the class key.
    public let generation: UInt32

    /// Reads the heads, and records if there are any.
    ///
    /// - Throws: `notProtected`, `mangled`, `damaged`, `unsupported`, `notRegularFile`, `system`.
    public init(of path: FilePath) throws(DataProtectionError) {
        try self.init(path: path, file: LowerFile(regular: path, flags: O_RDONLY))
    }

    package init(path: FilePath, file: LowerFile) throws(DataProtectionError) {
        let state = try Self.state(of: file)
        let name = state.heads.head.wrap.classKey
        protectionClass = name.protectionClass
        keybag = name.keybag
        generation = name.generation
        size = Int64(state.record.size)
    }

    /// Heads and records, judged without any key; what looks damaged is looked at again under the slot lock.
    package static func state(of file: LowerFile) throws(DataProtectionError) -> FileState {
        do throws(Trouble) {
            return try read(file, isLocked: false)
        } catch {
            guard case .suspect = error else { throw error.reported }
        }
        return try file.withByteLock(OpenFile.slotLock, .shared) { () throws(DataProtectionError) in
            do throws(Trouble) { return try read(file, isLocked: true) } catch { throw error.reported }
        }
    }

    private static func read(_ file: LowerFile, isLocked: Bool) throws(Trouble) -> FileState {
        var state = FileState(try HeadPair(reading: file, isLocked: isLocked))
        try state.scan(file, headKey: nil)
        if state.hasArea, !isLocked {
            // Emptied while it was read: without its records, the head says an older size.
            let hasMoved = try certainly { () throws(DataProtectionError) in try state.heads.hasChanged(in: file) }
            if hasMoved {
                throw .suspect(.damaged(file.path, .redoRecord, reason: "emptied while it was read", offset: nil))
            }
        }
        return state
    }
}
