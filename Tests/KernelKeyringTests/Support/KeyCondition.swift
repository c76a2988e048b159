import KernelKeyring
import SystemPackage
import Testing

/// What can be under a name in the ring when somebody comes to load or to evict.
enum KeyCondition: String, CaseIterable, CustomTestStringConvertible {
    case absent
    case living
    /// With a timeout that runs.
    case timed
    /// Its timeout is over; the kernel keeps the payload for up to `gc_delay`.
    case expired
    case revoked
    /// Its maker was killed between `add_key` and `setperm`.
    case halfMade

    var testDescription: String { rawValue }

    /// Brings `scratch` into this condition; nil when there is no key.
    func make(_ scratch: ScratchKey, payload: [UInt8]) throws -> KeySerial? {
        switch self {
        case .absent: return nil
        case .living: return try scratch.load(payload)
        case .timed:
            let serial = try scratch.load(payload)
            try RingWriter.run { () throws(Errno) in try scratch.key.setTimeout(seconds: 1000) }
            return serial
        case .expired:
            let serial = try scratch.load(payload)
            try RingWriter.run { () throws(Errno) in try scratch.key.setTimeout(seconds: 1) }
            try scratch.waitUntilExpired()
            return serial
        case .revoked:
            let serial = try scratch.load(payload)
            try serial.revoke()
            return serial
        case .halfMade: return try scratch.addHalfMade(payload)
        }
    }

    /// What a search answers in this condition; nil: it finds the key.
    var searchError: Errno? {
        switch self {
        case .absent: .requiredKeyNotAvailable
        case .living, .timed, .halfMade: nil
        case .expired: .keyExpired
        case .revoked: .keyRevoked
        }
    }
}
