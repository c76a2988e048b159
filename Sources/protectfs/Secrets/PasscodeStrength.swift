import DataProtection
import Glibc

/// How many guesses find a passcode, counted simply, and how long that takes with a copy of keybag and device key.
///
/// The count is an upper bound. Repetitions, neighbours in the alphabet or on a keyboard, and the commonest words count little; every
/// other character counts as any of its kind. An attacker who tries words and names first finds those sooner.
struct PasscodeStrength {
    /// The base-2 logarithm of the number of guesses.
    let bits: Double

    /// PBKDF2-HMAC-SHA256 iterations that one graphics card does in a second: hashcat 6.2 on a GeForce RTX 4090, mode 10900, tries
    /// 8.9 million passwords of 999 iterations.
    private static let iterationsPerSecond = 8.9e9
    /// The fewest that a keybag has; most have more.
    private static let iterations = 600_000.0
    private static let year = 31_557_600.0

    private static let words = [
        "passcode", "password", "passwort", "letmein", "welcome", "iloveyou", "sunshine", "princess", "football",
        "baseball", "superman", "monkey", "dragon", "master", "shadow", "secret", "hello", "admin", "login",
    ].map { Array($0.utf8) }
    private static let keyboard = Array("qwertyuiop asdfghjkl zxcvbnm".utf8)

    /// Counts the guesses.
    init(_ passcode: borrowing SecretBytes) { bits = passcode.withUnsafeBytes(Self.bits) }

    /// Seconds until one graphics card has tried all of them.
    var seconds: Double { exp2(bits) * Self.iterations / Self.iterationsPerSecond }

    /// Less than a thousand years: a thousand graphics cards need a year.
    var isWeak: Bool { seconds < 1000 * Self.year }

    /// `less than a second`, `40 seconds`, `3 hours`, `12 years`.
    var duration: String {
        let units = [(Self.year, "year"), (86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")]
        guard isWeak, let unit = units.first(where: { seconds >= $0.0 }) else {
            return isWeak ? "less than a second" : "more than a thousand years"
        }
        return spoken(Int(seconds / unit.0), unit.1)
    }

    /// Warns a person of a weak passcode that is going to be set. It is not refused, and a script is told nothing.
    ///
    /// - Parameters:
    ///   - passcode: the new passcode.
    ///   - isTyped: whether somebody typed it.
    static func warnIfWeak(_ passcode: borrowing SecretBytes, isTyped: Bool) {
        let strength = PasscodeStrength(passcode)
        guard strength.isWeak, isTyped || isatty(2) == 1 else { return }
        StandardError.line(
            .warning,
            "this passcode is weak: with a copy of this disk, one graphics card finds it within \(strength.duration)")
        StandardError.line(
            .hint, "five random words make a strong one; set another one at any time: protectfs passcode")
    }

    // MARK: counting

    /// The bytes are looked at where they are; nothing is copied.
    private static func bits(of passcode: UnsafeRawBufferPointer) -> Double {
        let period = period(of: passcode)
        let once = UnsafeRawBufferPointer(rebasing: passcode.prefix(period))
        let perCharacter = log2(kinds(of: once))
        var (bits, index) = (log2(Double(max(1, passcode.count / max(1, period)))), 0)
        while index < once.count {
            if let length = commonWord(in: once, at: index) {
                bits += log2(Double(2 * words.count))
                index += length
            } else {
                bits += index > 0 && follows(lower(once[index - 1]), lower(once[index])) ? 1 : perCharacter
                index += 1
            }
        }
        return bits
    }

    /// The length of what is repeated to make the whole passcode; its own length if nothing is.
    private static func period(of bytes: UnsafeRawBufferPointer) -> Int {
        let candidates = (1..<max(1, bytes.count)).filter { bytes.count % $0 == 0 }
        return candidates.first { length in (length..<bytes.count).allSatisfy { bytes[$0] == bytes[$0 - length] } }
            ?? bytes.count
    }

    /// How many characters there are of all the kinds that occur.
    private static func kinds(of bytes: UnsafeRawBufferPointer) -> Double {
        var kinds: [Bool] = [false, false, false, false, false]
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"): kinds[0] = true
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): kinds[1] = true
            case UInt8(ascii: "0")...UInt8(ascii: "9"): kinds[2] = true
            case 0x80...: kinds[4] = true
            default: kinds[3] = true
            }
        }
        return zip(kinds, [26.0, 26, 10, 33, 64]).reduce(0) { $0 + ($1.0 ? $1.1 : 0) }
    }

    private static func commonWord(in bytes: UnsafeRawBufferPointer, at index: Int) -> Int? {
        words.first { word in
            index + word.count <= bytes.count && word.indices.allSatisfy { lower(bytes[index + $0]) == word[$0] }
        }?.count
    }

    /// Whether two characters are the same, or neighbours in the alphabet, among the digits or on a keyboard.
    private static func follows(_ one: UInt8, _ other: UInt8) -> Bool {
        if one == other { return true }
        let isWordLike = [one, other].allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard isWordLike else { return false }
        if abs(Int(one) - Int(other)) == 1 { return true }
        return keyboard.indices.dropFirst().contains { index in
            (keyboard[index - 1], keyboard[index]) == (one, other)
                || (keyboard[index - 1], keyboard[index]) == (other, one)
        }
    }

    private static func lower(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }
}
