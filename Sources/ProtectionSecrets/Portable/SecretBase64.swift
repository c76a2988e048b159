import ProtectionKeys

/// Base 64 (RFC 4648 §4) of secrets: from memory for secrets into memory for secrets, without tables, so that no cache line and no
/// branch depends on what is encoded.
enum SecretBase64 {
    static func encode(_ value: borrowing SecretBytes) -> SecretBytes {
        let count = value.count
        return value.withUnsafeBytes { value in
            SecretBytes(byteCount: (count + 2) / 3 * 4) { text in
                for group in 0..<(count + 2) / 3 {
                    let rest = count - 3 * group
                    var bits = Int32(value[3 * group]) << 16
                    if rest > 1 { bits |= Int32(value[3 * group + 1]) << 8 }
                    if rest > 2 { bits |= Int32(value[3 * group + 2]) }
                    for digit in 0..<4 {
                        let isPadding = digit > rest
                        let letter = isPadding ? Int32(UInt8(ascii: "=")) : letter(bits >> (18 - 6 * Int32(digit)) & 63)
                        text[4 * group + digit] = UInt8(truncatingIfNeeded: letter)
                    }
                }
            }
        }
    }

    /// The value; nil for what ``encode(_:)`` would not have made.
    static func decode(_ text: borrowing SecretBytes) -> SecretBytes? {
        let count = text.count
        guard count % 4 == 0 else { return nil }
        let padding = text.withUnsafeBytes { text in text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        }
        var wrong: Int32 = 0
        let value = text.withUnsafeBytes { text in
            SecretBytes(byteCount: count / 4 * 3 - padding) { value in
                for group in 0..<count / 4 {
                    var bits: Int32 = 0
                    let digits = group == count / 4 - 1 ? 4 - padding : 4
                    for digit in 0..<4 {
                        let number = digit < digits ? number(of: Int32(text[4 * group + digit])) : 0
                        wrong |= number >> 31
                        bits = bits << 6 | number & 63
                    }
                    // Bits behind the last byte are zero.
                    if digits < 4 { wrong |= bits & (digits == 2 ? 0xFFFF : 0xFF) }
                    for byte in 0..<3 where 3 * group + byte < value.count {
                        value[3 * group + byte] = UInt8(truncatingIfNeeded: bits >> (16 - 8 * Int32(byte)))
                    }
                }
            }
        }
        guard wrong == 0 else { return nil }
        return value
    }

    /// The letter of a number below 64. `>> 31` is −1 for what is below 0, else 0.
    private static func letter(_ number: Int32) -> Int32 {
        var letter = number + 65  // A
        letter += (25 - number) >> 31 & 6  // a
        letter -= (51 - number) >> 31 & 75  // 0
        letter -= (61 - number) >> 31 & 15  // +
        letter += (62 - number) >> 31 & 3  // /
        return letter
    }

    /// The number of a letter; −1 for what is none.
    private static func number(of letter: Int32) -> Int32 {
        func isWithin(_ first: Int32, _ last: Int32) -> Int32 {
            ((first - 1 - letter) & (letter - last - 1)) >> 31
        }
        var number: Int32 = -1
        number += isWithin(65, 90) & (letter - 64)
        number += isWithin(97, 122) & (letter - 70)
        number += isWithin(48, 57) & (letter + 5)
        number += isWithin(43, 43) & 63
        number += isWithin(47, 47) & 64
        return number
    }
}
