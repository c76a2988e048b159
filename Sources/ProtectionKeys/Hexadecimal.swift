/// Bytes as pairs of hexadecimal digits.
package enum Hexadecimal {
    private static let digits = Array("0123456789abcdef".utf8)

    /// In lower case.
    package static func text(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// The bytes of `text`, two digits each, either all of them parted by colons or none; nil if it is anything else.
    package static func bytes(_ text: String) -> [UInt8]? {
        let pairs =
            text.utf8.contains(UInt8(ascii: ":"))
            ? text.utf8.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false).map(Array.init)
            : stride(from: 0, to: text.utf8.count, by: 2).map { Array(text.utf8.dropFirst($0).prefix(2)) }
        var bytes: [UInt8] = []
        for pair in pairs {
            guard pair.count == 2, let high = value(pair[0]), let low = value(pair[1]) else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes.isEmpty ? nil : bytes
    }

    /// The value of a digit, 0 to 15; nil if it is none.
    static func value(_ digit: UInt8) -> UInt8? {
        digits.firstIndex(of: UInt8(ascii: "A")...UInt8(ascii: "F") ~= digit ? digit | 0x20 : digit).map(UInt8.init)
    }

    /// The digit of a value from 0 to 15.
    static func digit(_ value: UInt8) -> UInt8 { digits[Int(value)] }
}
