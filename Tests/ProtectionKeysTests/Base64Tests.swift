import Testing

@testable import ProtectionKeys

@Suite struct Base64Tests {
    /// RFC 4648 §10, and what is none.
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func padded(text: String, encoded: String) {
        #expect(Base64.encode(Array(text.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(text.utf8))
        for other in [encoded + "=", encoded + "A", encoded.lowercased() + "\n", String(encoded.dropLast())]
        where other != encoded { #expect(Base64.decode(other) == nil, "\(other)") }
    }

    /// The same without `=`: each has one spelling, with no bit set that means nothing.
    @Test(arguments: [
        ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
        ("foobar", "Zm9vYmFy"),
    ])
    func unpadded(text: String, encoded: String) {
        #expect(Base64.encodeUnpadded(Array(text.utf8)) == encoded)
        #expect(Base64.decodeUnpadded(encoded) == Array(text.utf8))
        for other in [encoded + "=", encoded + "==", encoded + "\n", encoded + " ", encoded + "-"] {
            #expect(Base64.decodeUnpadded(other) == nil, "\(other)")
        }
    }

    @Test(arguments: ["Zh", "Zm9", "Zm9vYh", "Z", "Zm9vY", "Zm 9v", "Zm9v\n", "Zm9\u{FF56}"])
    func noOtherSpelling(text: String) {
        #expect(Base64.decodeUnpadded(text) == nil)
    }
}
