/// Reads little-endian fields from stored bytes, in order, never beyond their end.
struct ByteReader {
    private let bytes: [UInt8]
    private(set) var offset: Int
    private let end: Int
    private let layer: FormatError.Layer

    init(_ bytes: [UInt8], from offset: Int = 0, to end: Int? = nil, layer: FormatError.Layer) {
        self.bytes = bytes
        self.offset = offset
        self.end = min(end ?? bytes.count, bytes.count)
        self.layer = layer
    }

    var remaining: Int { end - offset }

    mutating func take(_ count: Int) throws(FormatError) -> [UInt8] {
        guard count >= 0, count <= remaining else { throw .damaged(layer, reason: "ends early") }
        defer { offset += count }
        return Array(bytes[offset..<offset + count])
    }

    mutating func integer<I: FixedWidthInteger & UnsignedInteger>(_: I.Type) throws(FormatError) -> I {
        let count = I.bitWidth / 8
        guard count <= remaining else { throw .damaged(layer, reason: "ends early") }
        defer { offset += count }
        var value: I = 0
        for index in (0..<count).reversed() { value = value << 8 | I(bytes[offset + index]) }
        return value
    }

    /// Skips `count` bytes that must be zero.
    mutating func zero(_ count: Int) throws(FormatError) {
        guard count >= 0, count <= remaining else { throw .damaged(layer, reason: "ends early") }
        guard bytes.isZero(in: offset..<offset + count) else {
            throw .damaged(layer, reason: "a reserved field is not zero")
        }
        offset += count
    }

    /// Fails unless `condition` holds.
    func require(_ condition: Bool, _ reason: String) throws(FormatError) {
        guard condition else { throw .damaged(layer, reason: reason) }
    }
}

extension [UInt8] {
    /// Whether all bytes of a range are zero. A head has nearly 4 KiB of them, so eight are looked at at once.
    fileprivate func isZero(in range: Range<Int>) -> Bool {
        withUnsafeBytes { bytes in
            var (place, found) = (range.lowerBound, 0 as UInt64)
            while place + 8 <= range.upperBound {
                found |= bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self)
                place += 8
            }
            return found == 0 && bytes[place..<range.upperBound].allSatisfy { $0 == 0 }
        }
    }

    mutating func append(littleEndian value: some FixedWidthInteger & UnsignedInteger) {
        for index in 0..<(value.bitWidth / 8) { append(UInt8(truncatingIfNeeded: value >> (8 * index))) }
    }

    mutating func appendZero(_ count: Int) { append(contentsOf: repeatElement(0, count: count)) }

    /// Appends zeros up to a length of `count` bytes.
    mutating func pad(to count: Int) { appendZero(count - self.count) }
}
