/// What opens a keybag when the passcode or the machine is lost: 130 random bits that somebody wrote down. FORMAT.md §2.7.
///
/// 26 random symbols and 6 of a checksum, in Crockford's alphabet, shown in 8 groups of 4. The checksum is the code of
/// BIP 350 (Bech32m), which finds every error of up to 4 symbols, so that a typo is told from another code before anything
/// is derived.
public struct RecoveryCode: ~Copyable, Sendable {
    /// Symbols without the dashes.
    public static let symbolCount = 32
    /// Groups of four symbols each.
    public static let groupCount = 8

    /// 32 ASCII characters in upper case: what goes into PBKDF2.
    let symbols: SecretBytes

    private static let randomCount = 26
    private static let groupLength = symbolCount / groupCount

    /// A new code.
    public static func random() throws(KeyError) -> RecoveryCode {
        let random = try SecretBytes(randomByteCount: randomCount)
        return random.withUnsafeBytes { random in
            RecoveryCode(
                symbols: SecretBytes(byteCount: symbolCount) { symbols in
                    for index in 0..<randomCount { symbols[index] = Crockford.symbol(random[index] & 31) }
                    let checksum = RecoveryChecksum.of(UnsafeRawBufferPointer(rebasing: symbols[..<randomCount]))
                    for index in randomCount..<symbolCount {
                        let shift = 5 * UInt32(symbolCount - 1 - index)
                        symbols[index] = Crockford.symbol(UInt8(checksum >> shift & 31))
                    }
                })
        }
    }

    private init(symbols: consuming SecretBytes) { self.symbols = symbols }

    /// Reads what somebody typed: in any case, with any spaces and dashes, `I` and `L` for 1, `O` for 0.
    ///
    /// - Parameter text: ASCII, or anything else, which is a typo.
    /// - Throws: what is wrong with it. A typo is never corrected silently, and never tried.
    public init(reading text: borrowing SecretBytes) throws(RecoveryCodeTypo) {
        var symbols = SecretBytes(zeroed: Self.symbolCount)
        let (count, foreign) = Self.read(text, into: &symbols)
        if let foreign, foreign < Self.symbolCount { throw .character(group: foreign / Self.groupLength + 1) }
        guard count == Self.symbolCount else { throw .length(count) }
        let (isGood, wrong) = symbols.withUnsafeBytes { symbols in
            (RecoveryChecksum.isGood(symbols), RecoveryChecksum.singleError(in: symbols))
        }
        guard isGood else { throw .checksum(likelyGroup: wrong.map { $0 / Self.groupLength + 1 }) }
        self.symbols = symbols
    }

    /// The code as it is shown: 39 characters, eight groups with a dash between them.
    public borrowing func grouped() -> SecretBytes {
        symbols.withUnsafeBytes { symbols in
            SecretBytes(byteCount: Self.symbolCount + Self.groupCount - 1) { text in
                text.initializeMemory(as: UInt8.self, repeating: UInt8(ascii: "-"))
                for (index, symbol) in symbols.enumerated() { text[index + index / Self.groupLength] = symbol }
            }
        }
    }

    /// Whether `text` is one group of this code: what shows that somebody has written it down.
    ///
    /// - Parameter group: from 1 to 8.
    public borrowing func isGroup(_ group: Int, typedAs text: borrowing SecretBytes) -> Bool {
        precondition((1...Self.groupCount).contains(group))
        var typed = SecretBytes(zeroed: Self.groupLength)
        let (count, foreign) = Self.read(text, into: &typed)
        guard count == Self.groupLength, foreign == nil else { return false }
        let start = (group - 1) * Self.groupLength
        return symbols.withUnsafeBytes { symbols in
            typed.withUnsafeBytes { typed in
                LibCrypto.areEqual(
                    UnsafeRawBufferPointer(rebasing: symbols[start..<start + Self.groupLength]), typed)
            }
        }
    }

    /// Takes the symbols out of typed text, as many as there is room for.
    ///
    /// - Returns: how many characters there are besides spaces and dashes, and where the first is that is no symbol.
    private static func read(
        _ text: borrowing SecretBytes, into symbols: inout SecretBytes
    ) -> (count: Int, foreign: Int?) {
        var count = 0
        var foreign: Int?
        text.withUnsafeBytes { text in
            symbols.withUnsafeMutableBytes { symbols in
                for byte in text where !Crockford.isSeparator(byte) {
                    if let value = Crockford.value(byte) {
                        if count < symbols.count { symbols[count] = Crockford.symbol(value) }
                    } else if foreign == nil {
                        foreign = count
                    }
                    if byte & 0xC0 != 0x80 { count += 1 }  // the bytes behind the first of a UTF-8 sequence
                }
            }
        }
        return (count, foreign)
    }
}

/// Why something that was typed is no recovery code. Nothing was derived from it, and no attempt was made.
public enum RecoveryCodeTypo: Error, Hashable, Sendable {
    /// So many characters instead of 32.
    case length(Int)
    /// A character that no recovery code has; the group from 1 to 8.
    case character(group: Int)
    /// The checksum is wrong. `likelyGroup`: where one wrong symbol, and no other single one, would explain it.
    case checksum(likelyGroup: Int?)
}
