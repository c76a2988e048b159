import CSecretMemory

/// Random bytes from the kernel: getrandom(2), by a system call each time.
///
/// A generator in the process's memory, such as libcrypto's, is part of a virtual machine's snapshot. A machine that is resumed twice from
/// one snapshot would repeat its output, and use a nonce twice under one key. The kernel's generator is seeded anew when the
/// hypervisor says that the machine was resumed. A call for 12 bytes costs less than RAND_bytes(3) does.
public enum Randomness {
    /// `count` random bytes for what is not secret: nonces, salts, ids.
    public static func bytes(_ count: Int) throws(KeyError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        try bytes.lendMutableBytes { bytes throws(KeyError) in try fill(bytes) }
        return bytes
    }

    /// Fills `bytes`, which may be secret.
    static func fill(_ bytes: UnsafeMutableRawBufferPointer) throws(KeyError) {
        let errno = protectfs_random(bytes.baseAddress, bytes.count)
        guard errno == 0 else { throw .libraryFailed(operation: "getrandom", code: UInt(errno)) }
    }

    /// 64 random bits, never zero.
    public static func epoch() throws(KeyError) -> UInt64 {
        while true {
            let epoch = try bytes(8).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
            if epoch != 0 { return epoch }
        }
    }
}

/// SHA-256 (FIPS 180-4), of bytes that are not secret where nothing else is said.
public enum Digest {
    /// Of secret bytes: 32 bytes.
    package static func sha256(_ secret: borrowing SecretBytes) throws(KeyError) -> SecretBytes {
        try secret.withUnsafeBytes { secret throws(KeyError) in
            try SecretBytes(byteCount: 32) { digest throws(KeyError) in try LibCrypto.sha256(secret, into: digest) }
        }
    }

    /// 32 bytes.
    public static func sha256(_ data: UnsafeRawBufferPointer) throws(KeyError) -> [UInt8] {
        try LibCrypto.sha256(pieces: [data])
    }

    /// 32 bytes.
    public static func sha256(_ data: [UInt8]) throws(KeyError) -> [UInt8] {
        try data.lendBytes { data throws(KeyError) in try LibCrypto.sha256(pieces: [data]) }
    }
}

/// Whether two byte strings are equal, in a time that does not depend on where they differ.
public func areEqualInConstantTime(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    a.withUnsafeBytes { areEqualInConstantTime($0, b) }
}

/// The same for bytes that are lent.
public func areEqualInConstantTime(_ a: UnsafeRawBufferPointer, _ b: [UInt8]) -> Bool {
    b.withUnsafeBytes { b in LibCrypto.areEqual(a, b) }
}

extension SecretBytes {
    /// The same for secrets. Of two lengths they differ, and that takes no time.
    package borrowing func isEqual(to other: borrowing SecretBytes) -> Bool {
        withUnsafeBytes { a in other.withUnsafeBytes { b in LibCrypto.areEqual(a, b) } }
    }
}
