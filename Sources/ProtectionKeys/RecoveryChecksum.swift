/// Douglas Crockford's base 32: the digits and the letters without I, L, O and U.
enum Crockford {
    private static let alphabet: StaticString = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

    /// The symbol of a value below 32.
    static func symbol(_ value: UInt8) -> UInt8 { alphabet.utf8Start[Int(value & 31)] }

    /// The value of a symbol in any case; what looks like a digit is that digit.
    static func value(_ character: UInt8) -> UInt8? {
        let upper = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(character) ? character & 0xDF : character
        switch upper {
        case UInt8(ascii: "O"): return 0
        case UInt8(ascii: "I"), UInt8(ascii: "L"): return 1
        default: return (0..<32 as Range<UInt8>).first { symbol($0) == upper }
        }
    }

    /// What a code may be written with and does not consist of.
    static func isSeparator(_ character: UInt8) -> Bool {
        [UInt8(ascii: " "), UInt8(ascii: "-"), UInt8(ascii: "\t"), UInt8(ascii: "\r")].contains(character)
    }
}

/// The checksum of BIP 350 over the values of a code's symbols, with the human-readable part `protectfs`.
enum RecoveryChecksum {
    private static let constant: UInt32 = 0x2BC8_30A3
    private static let generators: [UInt32] = [0x3B6A_57B2, 0x2650_8E6D, 0x1EA1_19FA, 0x3D42_33DD, 0x2A14_62B3]

    /// The state behind the expanded human-readable part (BIP 173).
    private static let start: UInt32 = {
        let part = Array("protectfs".utf8)
        return (part.map { $0 >> 5 } + [0] + part.map { $0 & 31 }).reduce(1) { step($0, $1) }
    }()

    private static func step(_ state: UInt32, _ value: UInt8) -> UInt32 {
        var next = (state & 0x01FF_FFFF) << 5 ^ UInt32(value)
        for (bit, generator) in generators.enumerated() {
            next ^= generator & (0 &- (state >> (25 + UInt32(bit)) & 1))  // no branch on a secret bit
        }
        return next
    }

    private static func state(behind symbols: UnsafeRawBufferPointer) -> UInt32 {
        symbols.reduce(start) { step($0, Crockford.value($1) ?? 0) }
    }

    /// The 30 bits that follow 26 symbols.
    static func of(_ symbols: UnsafeRawBufferPointer) -> UInt32 {
        (0..<6).reduce(state(behind: symbols)) { state, _ in step(state, 0) } ^ constant
    }

    /// Whether 32 symbols end with their checksum.
    static func isGood(_ symbols: UnsafeRawBufferPointer) -> Bool { state(behind: symbols) == constant }

    /// The one place where another symbol would make the checksum right. Two codes differ in five symbols at least, so that
    /// there is one such place or none.
    static func singleError(in symbols: UnsafeRawBufferPointer) -> Int? {
        let syndrome = state(behind: symbols) ^ constant
        return symbols.indices.first { place in
            (1..<32 as Range<UInt8>).contains { difference in
                // The code is linear: an error moves the state by the same amount, whatever the symbols are.
                symbols[(place + 1)...].reduce(UInt32(difference)) { state, _ in step(state, 0) } == syndrome
            }
        }
    }
}
