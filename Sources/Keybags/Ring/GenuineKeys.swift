import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import Synchronization

/// Which payloads of the ring this process has found to hold which genuine class keys, so that it computes the id of a key once and not in
/// every operation.
///
/// It has no part of a key: only a digest of each payload, which nobody can invert, because a payload has random keys of 32 bytes. A lock leaves
/// it. Without the payload it is good for nothing, and a payload that an unlock loads is another one.
final class GenuineKeys: Sendable {
    /// SHA-512 of a payload, after ``salt()``.
    typealias Digest = [UInt8]

    /// A payload, and the key of the ring that had it.
    struct Payload {
        let serial: KeySerial
        let digest: Digest
    }

    private struct Found: Equatable {
        let digest: Digest
        let id: [UInt8]
    }
    /// The last payload of each key.
    private let found = Mutex<[ClassKeyName: Found]>([:])
    /// So that digests of two processes say nothing about each other.
    private let randomSalt = Result { () throws(KeyError) in try Randomness.bytes(64) }

    private let unlocked = Mutex<Payload?>(nil)
    /// The last payload that was found to have class keys A and B, both genuine and active.
    var lastUnlocked: Payload? {
        get { unlocked.withLock { $0 } }
        set { unlocked.withLock { $0 = newValue } }
    }

    func salt() throws(KeyError) -> [UInt8] { try randomSalt.get() }

    /// Whether a key in the payload with this digest is the one that the keybag names.
    ///
    /// - Parameters:
    ///   - id: of the keybag's entry.
    ///   - compute: the id of the key in the payload; called if this payload is not known.
    func isGenuine(
        _ name: ClassKeyName, id: [UInt8], in digest: Digest, _ compute: () throws(KeyError) -> [UInt8]
    ) throws(KeyError) -> Bool {
        let now = Found(digest: digest, id: id)
        if found.withLock({ $0[name] == now }) { return true }
        guard areEqualInConstantTime(try compute(), id) else { return false }
        found.withLock { $0[name] = now }
        return true
    }
}
