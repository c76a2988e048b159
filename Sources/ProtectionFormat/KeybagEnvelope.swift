import ProtectionKeys

/// What a keybag and a backup keybag begin and end with. FORMAT.md §2.1, §2.16.
///
///     offset       bytes  field
///     0            8      magic
///     8            2      version: 1
///     10           2      incompatible features: 0
///     12           4      length
///     length − 64  32     MAC over all bytes before
///     length − 32  32     SHA-256 over all bytes before: the keyless check
enum KeybagEnvelope {
    static let trailerLength = 64

    /// Reads the beginning, and checks length and the keyless check.
    ///
    /// - Parameters:
    ///   - header: bytes of the whole header, of which this is the beginning.
    ///   - what: for *unsupported*.
    /// - Returns: the length.
    static func open(
        _ bytes: [UInt8], _ reader: inout ByteReader, magic: [UInt8], orElse reason: String, header: Int, what: String
    ) throws(FormatError) -> Int {
        try reader.require(reader.take(8) == magic, reason)
        let version = try reader.integer(UInt16.self)
        let features = try reader.integer(UInt16.self)
        let length = Int(try reader.integer(UInt32.self))
        try reader.require(length == bytes.count && length >= header + trailerLength, "length")
        let check = try? Digest.sha256(Array(bytes.dropLast(32)))
        try reader.require(check?.elementsEqual(bytes.suffix(32)) == true, "the keyless check is wrong")
        guard version == 1 else { throw .unsupported(what: "\(what) version \(version)") }
        guard features == 0 else { throw .unsupported(what: "\(what) features \(String(features, radix: 16))") }
        return length
    }

    /// The beginning.
    static func beginning(magic: [UInt8], length: Int) -> [UInt8] {
        var bytes = magic
        bytes.append(littleEndian: UInt16(1))
        bytes.append(littleEndian: UInt16(0))
        bytes.append(littleEndian: UInt32(length))
        return bytes
    }

    /// All that is stored, of what is before the MAC.
    static func closed(_ clear: [UInt8], under key: borrowing MACKey) throws(KeyError) -> [UInt8] {
        let bytes = clear + (try key.tag(of: clear))
        return bytes + (try Digest.sha256(bytes))
    }

    /// Whether the MAC of the stored form `bytes` is good.
    static func isMACGood(_ bytes: [UInt8], under key: borrowing MACKey) throws(KeyError) -> Bool {
        guard bytes.count > trailerLength else { return false }
        let mac = Array(bytes[(bytes.count - trailerLength)..<(bytes.count - 32)])
        return try key.isValid(mac, for: Array(bytes.dropLast(trailerLength)))
    }
}
