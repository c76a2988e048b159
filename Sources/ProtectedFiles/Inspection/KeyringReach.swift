import DurableFiles
import KernelKeyring
import Keybags
import ProtectionKeys
public import SystemPackage

/// Whether this session can do with the kernel keyring what protectfs needs: a key of no meaning is put there, found, read
/// and taken away.
public struct KeyringReach: Sendable, Hashable {
    /// A step of that.
    public enum Step: String, Sendable, Hashable {
        /// add_key(2).
        case add
        /// keyctl_search(3) in the user keyring.
        case find
        /// keyctl_read(3).
        case read
        /// Taking it away, and not finding it afterwards.
        case evict
    }
    /// The first step that failed, with its error; nil if all went well.
    public let failure: Failure?

    /// A step that the kernel refused.
    public struct Failure: Error, Sendable, Hashable {
        /// Which step.
        public let step: Step
        /// What the kernel said.
        public let errno: Errno
    }

    /// Tries it.
    public init() {
        do throws(Failure) {
            try Self.roundTrip()
            failure = nil
        } catch {
            failure = error
        }
    }

    private static func roundTrip() throws(Failure) {
        let serial = UInt64.random(in: 0...UInt64.max)
        let key = RingKey(description: "protectfs-doctor:\(serial)")
        var payload = SecretBytes(zeroed: 16)
        try attempt(.add) { () throws(Errno) in
            try RingWriter.run { () throws(Errno) in
                _ = try payload.withUnsafeBytes { bytes throws(Errno) in try key.load(bytes) }
            }
        }
        do throws(Failure) {
            let found = try attempt(.find) { () throws(Errno) in try key.find() }
            try attempt(.read) { () throws(Errno) in
                _ = try payload.withUnsafeMutableBytes { bytes throws(Errno) in try found.read(into: bytes) }
            }
        } catch {
            try? RingWriter.run { () throws(Errno) in try key.evict() }  // the first error is the one that says why
            throw error
        }
        try attempt(.evict) { () throws(Errno) in
            try RingWriter.run { () throws(Errno) in try key.evict() }
        }
    }

    private static func attempt<R>(_ step: Step, _ body: () throws(Errno) -> R) throws(Failure) -> R {
        do throws(Errno) { return try body() } catch { throw Failure(step: step, errno: error) }
    }
}
