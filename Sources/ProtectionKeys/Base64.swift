/// Base 64 (RFC 4648 §4), without line breaks.
package enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The text of `bytes`, filled up with `=` to a multiple of four characters.
    package static func encode(_ bytes: [UInt8]) -> String {
        let text = encodeUnpadded(bytes)
        return text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
    }

    /// The text of `bytes` without `=` (RFC 4648 §3.2), as password hashes have it.
    package static func encodeUnpadded(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let value = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
            for place in 0...group.count { text.append(alphabet[value >> (18 - 6 * place) & 63]) }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes of `text`; nil if it is not what ``encode(_:)`` makes of them.
    package static func decode(_ text: String) -> [UInt8]? {
        let bytes = bytes(of: text.utf8.reversed().drop(while: { $0 == UInt8(ascii: "=") }).reversed())
        return bytes.flatMap { encode($0) == text ? $0 : nil }
    }

    /// The bytes of `text`; nil if it is not what ``encodeUnpadded(_:)`` makes of them.
    package static func decodeUnpadded(_ text: String) -> [UInt8]? {
        bytes(of: Array(text.utf8)).flatMap { encodeUnpadded($0) == text ? $0 : nil }
    }

    private static func bytes(of characters: [UInt8]) -> [UInt8]? {
        var bytes: [UInt8] = []
        var value = 0
        var bits = 0
        for character in characters {
            guard let digit = alphabet.firstIndex(of: character) else { return nil }
            (value, bits) = ((value << 6 | digit) & 0xFFFF, bits + 6)
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: value >> bits))
            }
        }
        return bytes
    }
}
