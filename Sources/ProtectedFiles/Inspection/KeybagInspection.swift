import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

/// What a keybag's files say of it, without a passcode and without touching them. No wraps, no salts.
public struct KeybagInspection: Hashable, Sendable {
    /// One of the copies.
    public struct Copy: Hashable, Sendable {
        /// Its condition compared with the second copy.
        public enum Condition: Hashable, Sendable {
            /// The newest whole copy: it counts.
            case inForce
            /// The same bytes as the one in force.
            case equal
            /// Whole, but not the same: the next unlock repairs it.
            case other(sequence: UInt64)
            /// Broken, and why.
            case damaged(reason: String)
            /// Not there.
            case missing
        }
        /// Where it is.
        public let path: FilePath
        /// Its condition compared with the second copy.
        public let condition: Condition
    }

    /// A way to the keybag key.
    public struct Slot: Hashable, Sendable {
        /// What the way begins with.
        public enum Kind: String, Hashable, Sendable {
            /// The passcode, and the device key.
            case passcode
            /// The recovery code alone.
            case recoveryCode = "recovery code"
        }
        /// What the way begins with.
        public let kind: Kind
        /// PBKDF2-HMAC-SHA256 iterations.
        public let iterations: Int
        /// Whether fewer iterations than are written today were used.
        public var isWeak: Bool { iterations < KeybagSlot.leastIterations }
    }

    /// A class key.
    public struct Entry: Hashable, Sendable {
        /// 0 for a file class, 1 for one of secrets; others are kept and not used.
        public let kind: UInt8
        /// Nil for kinds that are not used.
        public let protectionClass: ProtectionClass?
        /// Raised by every rotation of the class key.
        public let generation: UInt32
        /// Whether it wraps new files; otherwise it opens old ones only.
        public let isActive: Bool
        /// 16 bytes that name the key.
        public let id: [UInt8]
    }

    /// The copies: two of a directory, one of a file.
    public let copies: [Copy]
    /// The keybag's name.
    public let uuid: KeybagUUID
    /// Raised by every replacement.
    public let sequence: UInt64
    /// Where the device key is meant to be.
    public let deviceKey: FilePath
    /// The ways to its key.
    public let slots: [Slot]
    /// The class keys, retired ones too.
    public let entries: [Entry]

    /// Reads the copies in a keybag's directory, or one copy by its own name.
    ///
    /// - Throws: `keybagNotFound`, `keybagDamaged` if no copy counts, `unsupported`, `system`.
    public init(of path: FilePath) throws(DataProtectionError) {
        if DirectoryDefault.isDirectory(path) {
            try self.init(ofDirectory: path)
        } else {
            let bytes = try LowerFile(regular: path, flags: O_RDONLY).bytes(at: 0, count: KeybagCopy.maximumLength + 1)
            do throws(FormatError) {
                self.init(try KeybagCopy(decoding: bytes), [Copy(path: path, condition: .inForce)])
            } catch .unsupported(let what) {
                throw .unsupported(path, what: what)
            } catch .damaged(_, let reason) {
                throw .because(KeybagFailure.keybagDamaged(path, reason: reason))
            } catch {
                throw .because(KeybagFailure.keybagDamaged(path, reason: "no keybag magic"))
            }
        }
    }

    package init(ofDirectory path: FilePath) throws(DataProtectionError) {
        let loaded = try KeybagFile(directory: path).load()
        self.init(loaded.copy, try KeybagFile(directory: path).conditions(beside: loaded))
    }

    private init(_ copy: KeybagCopy, _ copies: [Copy]) {
        self.copies = copies
        uuid = copy.uuid
        sequence = copy.sequence
        deviceKey = FilePath(bytes: copy.devicePath)
        slots = copy.slots.map { slot in
            Slot(kind: slot.kind == .passcode ? .passcode : .recoveryCode, iterations: slot.iterations)
        }
        entries = copy.entries.map { entry in
            Entry(
                kind: entry.kind, protectionClass: copy.name(of: entry)?.protectionClass,
                generation: entry.generation, isActive: entry.state == .active, id: entry.id)
        }
    }

    /// Whether something at `path` is a keybag's directory, or begins as a copy does.
    public static func isKeybag(_ path: FilePath) -> Bool {
        if DirectoryDefault.isDirectory(path) { return KeybagFile(directory: path).isThere }
        guard let file = try? LowerFile(regular: path, flags: O_RDONLY) else { return false }
        return (try? file.bytes(at: 0, count: KeybagCopy.magic.count)) == KeybagCopy.magic
    }
}

extension KeybagFile {
    /// Whether any copy is there.
    fileprivate var isThere: Bool { Self.names.contains { OwnDirectory.exists(directory.appending($0)) } }

    fileprivate func conditions(beside loaded: Loaded) throws(DataProtectionError) -> [KeybagInspection.Copy] {
        var copies: [KeybagInspection.Copy] = []
        for (index, name) in Self.names.enumerated() {
            let bytes = index == loaded.index ? loaded.bytes : try read(name)
            copies.append(
                KeybagInspection.Copy(
                    path: directory.appending(name),
                    condition: index == loaded.index ? .inForce : condition(bytes, beside: loaded)))
        }
        return copies
    }

    private func condition(_ bytes: [UInt8]?, beside loaded: Loaded) -> KeybagInspection.Copy.Condition {
        guard let bytes else { return .missing }
        if bytes == loaded.bytes { return .equal }
        do throws(FormatError) {
            return .other(sequence: try KeybagCopy(decoding: bytes).sequence)
        } catch {
            if case .damaged(_, let reason) = error { return .damaged(reason: reason) }
            return .damaged(reason: "not a keybag")
        }
    }
}
