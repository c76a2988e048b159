import ProtectionKeys

/// The name of a download: 16 random bytes, which it keeps through restarts.
public struct DownloadID: Hashable, Comparable, Sendable, CustomStringConvertible {
    let bytes: [UInt8]

    /// A new one.
    static func random() throws(DownloadError) -> DownloadID {
        DownloadID(bytes: try withKeys { () throws(KeyError) in try Randomness.bytes(16) })!
    }

    /// - Returns: nil unless there are 16 bytes.
    init?(bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// As it is in the list, where somebody may have altered it.
    init(stored bytes: [UInt8]) { self.bytes = bytes }

    /// Reads 32 hexadecimal digits; nil for anything else.
    public init?(_ description: String) {
        let digits = description.utf8.count == 32 ? description.compactMap(\.hexDigitValue) : []
        guard digits.count == 32 else { return nil }
        bytes = (0..<16).map { UInt8(digits[2 * $0] << 4 | digits[2 * $0 + 1]) }
    }

    /// 32 hexadecimal digits.
    public var description: String { hexadecimal(bytes) }

    public static func < (a: DownloadID, b: DownloadID) -> Bool { a.bytes.lexicographicallyPrecedes(b.bytes) }
}

/// In lower case.
func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
