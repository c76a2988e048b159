@testable import ProtectionKeys

extension SecretBytes {
    /// Bytes that are no secret here.
    init(_ bytes: [UInt8]) {
        self.init(byteCount: bytes.count) { slot in slot.copyBytes(from: bytes) }
    }

    /// A readable copy, which only a test may make.
    borrowing func readable() -> [UInt8] { withUnsafeBytes { Array($0) } }

    /// Where they lie.
    borrowing func address() -> UInt { withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } }
}

/// Secret bytes where only a copyable value can stand: noncopyable ones have no place in an array or a static.
final class Held: Sendable {
    let bytes: SecretBytes

    init(_ bytes: consuming SecretBytes) { self.bytes = bytes }
}

extension FileKey {
    init(_ bytes: [UInt8]) { self.init(secret: SecretBytes(bytes)) }

    borrowing func readable() -> [UInt8] { secret.readable() }
}

extension ClassKey {
    init(_ name: ClassKeyName, _ bytes: [UInt8]) throws(KeyError) {
        try self.init(name: name, secret: SecretBytes(bytes))
    }

    borrowing func readable() -> [UInt8] { withUnsafeBytes { Array($0) } }
}

extension ClassBPrivateKey {
    init(_ name: ClassKeyName, _ bytes: [UInt8]) throws(KeyError) {
        try self.init(name: name, secret: SecretBytes(bytes))
    }

    borrowing func readable() -> [UInt8] { withUnsafeBytes { Array($0) } }
}

extension DeviceKey {
    init(_ bytes: [UInt8]) throws(KeyError) { try self.init(secret: SecretBytes(bytes)) }
}

/// `count` consecutive bytes from `first`: a recognisable key or text.
func run(from first: UInt8, count: Int = 32) -> [UInt8] {
    (0..<count).map { first &+ UInt8(truncatingIfNeeded: $0) }
}

/// `bytes` with one bit changed, once for every bit.
func everyBitFlipped(in bytes: [UInt8]) -> [[UInt8]] {
    bytes.indices.flatMap { index in
        (0..<8).map { bit in
            var flipped = bytes
            flipped[index] ^= 1 << bit
            return flipped
        }
    }
}

/// The name that keys of these tests have.
func keyName(
    _ protectionClass: ProtectionClass, generation: UInt32 = 1, keybag: UInt8 = 0xA0
) throws(KeyError) -> ClassKeyName {
    ClassKeyName(
        keybag: try KeybagUUID(bytes: run(from: keybag, count: 16)), protectionClass: protectionClass,
        generation: generation)
}
