import TestEffort

/// Bytes that a seed decides.
public func pattern(_ seed: UInt64, count: Int) -> [UInt8] {
    var generator = SeededGenerator(seed: seed)
    let words = (count + 7) / 8
    return [UInt8](unsafeUninitializedCapacity: words * 8) { buffer, initialized in
        let raw = UnsafeMutableRawBufferPointer(buffer)
        for word in 0..<words { raw.storeBytes(of: generator.next(), toByteOffset: 8 * word, as: UInt64.self) }
        initialized = count
    }
}

/// A number that tells different bytes apart, to compare what two processes read.
public func checksum(_ bytes: [UInt8]) -> UInt64 {
    bytes.withUnsafeBytes { bytes in
        var sum: UInt64 = 0xCBF2_9CE4_8422_2325 ^ UInt64(bytes.count)
        let whole = bytes.count / 8
        for word in 0..<whole {
            sum = (sum ^ bytes.loadUnaligned(fromByteOffset: 8 * word, as: UInt64.self)) &* 0x0000_0100_0000_01B3
            sum ^= sum >> 29
        }
        for byte in bytes[(whole * 8)...] { sum = (sum ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        return sum
    }
}
