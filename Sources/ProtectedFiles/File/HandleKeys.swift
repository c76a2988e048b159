import DurableFiles
import KernelKeyring
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// How a handle gets at its file's keys.
package struct HandleKeys {
    package let keybag: Keybag
    package let path: FilePath

    /// Between operations: everything for classes B, C and D; for class A only what is worthless without its class key.
    private enum Held {
        case none
        case kept(FileKeys, wrap: [UInt8], commitment: [UInt8])
        case masked(Masked)
    }
    /// Of class A. A class, because each operation takes it out of ``held``.
    private final class Masked {
        let keys: MaskedKeys
        let wrap: [UInt8]
        /// Where class key A was in the ring last time.
        var serial: KeySerial?

        init(_ keys: MaskedKeys, wrap: [UInt8], serial: KeySerial?) {
            (self.keys, self.wrap, self.serial) = (keys, wrap, serial)
        }
    }
    private var held = Held.none
    /// What this process says of the handle while its file has class A or B.
    package private(set) var entry: HandleEntry?

    /// The commitment of the file key that is kept; nil if none is.
    package var keptCommitment: [UInt8]? { if case .kept(_, _, let commitment) = held { commitment } else { nil } }

    package init(keybag: Keybag, path: FilePath) {
        self.keybag = keybag
        self.path = path
    }

    /// The keys for one operation. Class A asks the ring each time.
    package mutating func keys(
        for head: Head, _ operation: AttemptedOperation, needsHead: Bool, _ session: inout KeySession
    ) throws(DataProtectionError) -> FileKeys {
        switch held {
        case .kept(let kept, let wrap, _) where wrap == head.wrapBytes: return kept
        case .kept(let kept, _, let commitment)
        where commitment == head.wrap.commitment && head.wrap.classKey.protectionClass != .complete:
            // The class was changed, the key was not: an open handle goes on.
            held = .kept(kept, wrap: head.wrapBytes, commitment: commitment)
            enter(head.wrap.classKey.protectionClass)
            return kept
        case .masked(let masked) where masked.wrap == head.wrapBytes:
            if let unmasked = try unmask(masked, head, needsHead, &session) { return unmasked }
            throw .absent(keybag, path, head.wrap.classKey, operation)
        default:
            held = .none
            let fileKey = try session.fileKey(of: head, path: path, operation)
            return try hold(fileKey, of: head, &session)
        }
    }

    private func unmask(
        _ masked: Masked, _ head: Head, _ needsHead: Bool, _ session: inout KeySession
    ) throws(DataProtectionError) -> FileKeys? {
        guard let classKey = try session.unverifiedClassA(head.wrap.classKey, at: &masked.serial) else { return nil }
        do throws(KeyError) {
            return try masked.keys.unmask(with: classKey, needsHead: needsHead, use: session.use)
        } catch {
            throw .cryptography(error)
        }
    }

    /// Keeps the keys of an opened file key, as its class allows.
    ///
    /// - Parameter session: of the operation that has made or opened it.
    @discardableResult
    package mutating func hold(
        _ fileKey: borrowing FileKey, of head: Head, _ session: inout KeySession
    ) throws(DataProtectionError) -> FileKeys {
        let id = head.prefix.fileID
        let associated = head.prefix.associatedData(.chunk, index: 0)
        enter(head.wrap.classKey.protectionClass)
        do throws(KeyError) {
            let chunkKey = try fileKey.chunkKey(of: id)
            let headKey = try fileKey.headKey(of: id)
            if head.wrap.classKey.protectionClass == .complete {
                if let masked = try mask(chunkKey, headKey, of: head, &session) {
                    held = .masked(Masked(masked, wrap: head.wrapBytes, serial: session.classASerial))
                }
                return FileKeys(
                    associated: associated, chunkKey: chunkKey, headKey: FileKeys.Kept(headKey), use: session.use)
            }
            let kept = FileKeys(associated: associated, chunkKey: chunkKey, headKey: FileKeys.Kept(headKey))
            held = .kept(kept, wrap: head.wrapBytes, commitment: head.wrap.commitment)
            return kept
        } catch {
            throw .cryptography(error)
        }
    }

    private mutating func enter(_ protectionClass: ProtectionClass) {
        guard protectionClass != entry?.protectionClass else { return }
        entry = protectionClass.isShutByLock ? HandleEntry(keybag.client, protectionClass, path) : nil
    }

    /// nil if the class key cannot be had: the next operation says *locked* then.
    private func mask(
        _ chunkKey: borrowing SecretBytes, _ headKey: borrowing SecretBytes, of head: Head, _ session: inout KeySession
    ) throws(KeyError) -> MaskedKeys? {
        let kept = (FileKeys.Kept(chunkKey.slice(0..<32)), FileKeys.Kept(headKey.slice(0..<32)))
        let made = try? session.withClassKey(head.wrap.classKey) { classKey throws(DataProtectionError) in
            do throws(KeyError) {
                return try MaskedKeys(chunkKey: kept.0.bytes, headKey: kept.1.bytes, of: head.prefix, under: classKey)
            } catch {
                throw .cryptography(error)
            }
        }
        return made ?? nil
    }
}

extension ProtectionClass {
    /// Whether a lock takes the keys that open files of this class: A and B.
    package var isShutByLock: Bool { self == .complete || self == .completeUnlessOpen }
}
