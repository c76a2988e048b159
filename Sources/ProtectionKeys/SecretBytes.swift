import CSecretMemory

/// Secret bytes with exactly one owner: a slot of the process's secret arena, zeroed when the owner goes.
///
/// It cannot be copied, printed, compared or encoded. A child made by fork(2) without exec(3) does not get the arena.
public struct SecretBytes: ~Copyable, @unchecked Sendable {  // one owner; the slot is nobody else's
    private let slot: UnsafeMutableRawBufferPointer
    /// How many bytes.
    public let count: Int

    /// Reserves `byteCount` bytes and lets `fill` write them; they are zero before.
    public init<E: Error>(
        byteCount: Int, fill: (UnsafeMutableRawBufferPointer) throws(E) -> Void
    ) throws(E) {
        let slot = SecretArena.shared.reserve(byteCount: byteCount)
        do {
            try fill(slot)
        } catch {
            SecretArena.shared.zeroAndRelease(slot)
            throw error
        }
        self.slot = slot
        count = byteCount
    }

    /// Reserves `capacity` bytes, lets `fill` write them, and keeps as many as it returns; all of them are zeroed in the end.
    public init<E: Error>(
        capacity: Int, fill: (UnsafeMutableRawBufferPointer) throws(E) -> Int
    ) throws(E) {
        let slot = SecretArena.shared.reserve(byteCount: capacity)
        do {
            count = min(try fill(slot), capacity)
        } catch {
            SecretArena.shared.zeroAndRelease(slot)
            throw error
        }
        self.slot = slot
    }

    /// `byteCount` zero bytes, to be written later.
    public init(zeroed byteCount: Int) {
        slot = SecretArena.shared.reserve(byteCount: byteCount)
        count = byteCount
    }

    /// `byteCount` random bytes from the kernel (getrandom(2)).
    public init(randomByteCount byteCount: Int) throws(KeyError) {
        try self.init(byteCount: byteCount) { slot throws(KeyError) in try Randomness.fill(slot) }
    }

    /// A second owner of the same bytes, in a slot of its own.
    public init(copyOf source: UnsafeRawBufferPointer) {
        self.init(byteCount: source.count) { slot in slot.copyMemory(from: source) }
    }

    /// A copy of bytes that are elsewhere already: `[UInt8]`, `Data`, `"…".utf8`.
    ///
    /// The source stays as it was. Nothing can wipe an array, `Data` or string: each may have been copied before, and the memory of the
    /// copies stays readable after they are freed. Where the secret is read from a file, a terminal or a socket, read it into
    /// ``init(capacity:fill:)`` instead.
    public init(copyOf source: some Collection<UInt8>) {
        self.init(byteCount: source.count) { slot in slot.copyBytes(from: source) }
    }

    /// A copy of the UTF-8 of a string, which stays in memory as the source of any copy does.
    public init(copyOf source: String) { self.init(copyOf: source.utf8) }

    deinit { SecretArena.shared.zeroAndRelease(slot) }

    /// Lends the bytes for reading. They must not be copied anywhere but into another `SecretBytes`.
    public borrowing func withUnsafeBytes<R: ~Copyable, E: Error>(
        _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        try body(UnsafeRawBufferPointer(rebasing: slot[..<count]))
    }

    /// Lends the bytes for writing.
    public mutating func withUnsafeMutableBytes<R: ~Copyable, E: Error>(
        _ body: (UnsafeMutableRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        try body(UnsafeMutableRawBufferPointer(rebasing: slot[..<count]))
    }

    /// A copy of `range` of these bytes.
    public borrowing func slice(_ range: Range<Int>) -> SecretBytes {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        return SecretBytes(copyOf: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(slot)[range]))
    }

    /// The 64 bytes SHA-512(`salt` ‖ these bytes): not secret, if these bytes hold a random key.
    public borrowing func digest(salt: [UInt8]) throws(KeyError) -> [UInt8] {
        try withUnsafeBytes { own throws(KeyError) in
            var digest: [UInt8] = []
            // One slot for both: the digest is written over what it was made of.
            _ = try SecretBytes(capacity: max(64, salt.count + own.count)) { slot throws(KeyError) in
                slot.copyBytes(from: salt)
                slot[salt.count...].copyBytes(from: own)
                let input = UnsafeRawBufferPointer(rebasing: slot[..<(salt.count + own.count)])
                let output = UnsafeMutableRawBufferPointer(rebasing: slot[..<64])
                try LibCrypto.sha512(input, into: output)
                digest = Array(output)
                return 64
            }
            return digest
        }
    }

    /// Where this process keeps its secret bytes.
    public static var backing: SecretMemoryBacking { SecretArena.shared.backing }

    /// Wipes what earlier key operations may have left on this thread's stack, 64 KiB deep.
    public static func scrubStack() { protectfs_scrub_stack() }
}

extension SecretBytes {
    /// Wipes plaintext that was needed for a moment, in a way that the optimiser keeps (OPENSSL_cleanse(3)).
    public static func wipe(_ bytes: UnsafeMutableRawBufferPointer) { LibCrypto.cleanse(bytes) }
}
