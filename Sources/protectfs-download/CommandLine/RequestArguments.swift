/// A digest in hexadecimal.
struct DigestArgument: ExpressibleByArgument {
    let bytes: [UInt8]

    init?(argument: String) {
        guard let bytes = Hexadecimal.bytes(argument) else { return nil }
        self.bytes = bytes
    }
}

/// `KEYID:HEX`. The id may hold colons, the digits do not.
struct MACArgument: ExpressibleByArgument {
    let keyID: String
    let tag: [UInt8]

    init?(argument: String) {
        guard let colon = argument.lastIndex(of: ":"), colon != argument.startIndex,
            let digest = DigestArgument(argument: String(argument[argument.index(after: colon)...]))
        else { return nil }
        (keyID, tag) = (String(argument[..<colon]), digest.bytes)
    }
}

/// `NAME:VALUE`; whether both may be sent is for the request to say.
struct HeaderArgument: ExpressibleByArgument {
    let name, value: String

    init?(argument: String) {
        guard let colon = argument.firstIndex(of: ":"), colon != argument.startIndex else { return nil }
        name = String(argument[..<colon])
        value = String(argument[argument.index(after: colon)...].drop { $0 == " " })
    }
}

/// A number of bytes: `1500`, `500k`, `20M`, `1G`, by powers of 1024; one at least.
struct SizeArgument: ExpressibleByArgument {
    let bytes: UInt64

    init?(argument: String) {
        let units: [Character: UInt64] = ["k": 1 << 10, "M": 1 << 20, "G": 1 << 30]
        let unit = argument.last.flatMap { units[$0] }
        let digits = unit == nil ? argument[...] : argument.dropLast()
        guard digits.allSatisfy({ $0.isASCII && $0.isNumber }), let number = UInt64(digits), number > 0 else {
            return nil
        }
        let (bytes, isTooMuch) = number.multipliedReportingOverflow(by: unit ?? 1)
        guard !isTooMuch else { return nil }
        self.bytes = bytes
    }
}
