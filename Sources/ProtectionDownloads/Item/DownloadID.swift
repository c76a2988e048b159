import ProtectionKeys

/// The name of a download: 16 random bytes, which it keeps through restarts.
public struct DownloadID: Hashable, Comparable, Sendable, CustomStringConvertible {
    let bytes: [UInt8]

    /// A new one.
    static func random() throws(DownloadError) -> DownloadID {
        DownloadID(stored: try withKeys { () throws(KeyError) in try Randomness.bytes(16) })
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
        guard description.utf8.count == 32, let bytes = Hexadecimal.bytes(description) else { return nil }
        self.init(bytes: bytes)
    }

    /// 32 hexadecimal digits.
    public var description: String { Hexadecimal.text(bytes) }

    public static func < (a: DownloadID, b: DownloadID) -> Bool { a.bytes.lexicographicallyPrecedes(b.bytes) }
}
