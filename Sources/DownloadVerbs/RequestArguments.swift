/// A digest in hexadecimal.
package struct DigestArgument: ExpressibleByArgument {
    package let bytes: [UInt8]

    package init?(argument: String) {
        guard let bytes = Hexadecimal.bytes(argument) else { return nil }
        self.bytes = bytes
    }
}

/// `KEYID:HEX`. The id may hold colons, the digits do not.
package struct MACArgument: ExpressibleByArgument {
    package let keyID: String
    package let tag: [UInt8]

    package init?(argument: String) {
        guard let colon = argument.lastIndex(of: ":"), colon != argument.startIndex,
            let digest = DigestArgument(argument: String(argument[argument.index(after: colon)...]))
        else { return nil }
        (keyID, tag) = (String(argument[..<colon]), digest.bytes)
    }
}

/// `NAME:VALUE`; whether both may be sent is for the request to say.
package struct HeaderArgument: ExpressibleByArgument {
    package let name, value: String

    package init?(argument: String) {
        guard let colon = argument.firstIndex(of: ":"), colon != argument.startIndex else { return nil }
        name = String(argument[..<colon])
        value = String(argument[argument.index(after: colon)...].drop { $0 == " " })
    }
}

/// A number of bytes: `1500`, `500k`, `20M`, `1G`, by powers of 1024; one at least.
package struct SizeArgument: ExpressibleByArgument {
    package let bytes: UInt64

    package init?(argument: String) {
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
