/// The bytes of one input, taken from its beginning: first how it is to be understood, then what the reader gets. Behind the end
/// there are zeros.
struct Input {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    /// Two bytes, little-endian.
    mutating func short() -> Int { Int(byte()) | Int(byte()) << 8 }

    /// Eight bytes, little-endian.
    mutating func number() -> UInt64 { (0..<8).reduce(0 as UInt64) { $0 | UInt64(byte()) << (8 * $1) } }

    /// Up to `count` bytes.
    mutating func take(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// All that is left.
    mutating func remainder() -> [UInt8] { take(rest.count) }
}

/// Single bits of a byte that says how an input is to be understood.
extension UInt8 {
    func has(_ bit: Int) -> Bool { self >> bit & 1 == 1 }
}
