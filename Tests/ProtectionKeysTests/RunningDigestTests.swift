import ProtectionKeys
import Testing

@Suite struct RunningDigestTests {
    /// FIPS 180-4's and RFC 1321's examples for "abc".
    @Test(arguments: [
        (RunningDigest.Algorithm.md5, "900150983cd24fb0d6963f7d28e17f72"),
        (.sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            .sha512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        ),
    ]) func knownAnswers(_ algorithm: RunningDigest.Algorithm, _ expected: String) throws {
        for pieces in [["abc"], ["a", "bc"], ["", "a", "b", "c", ""]] {
            var digest = try RunningDigest(algorithm)
            for piece in pieces { try digest.update(Array(piece.utf8)) }
            #expect(try digest.valueSoFar() == hexadecimal(expected))
            let bytes = try digest.finish()
            #expect(bytes.count == algorithm.length)
            #expect(bytes == hexadecimal(expected))
        }
    }

    /// Issue 6, "Must show" 5.
    @Test func macUnderATextKey() throws {
        var mac = try RunningDigest(hmacSHA256: SecretBytes(Array("065a62448fb75fce3764dcbe68f9908d".utf8)))
        try mac.update(Array("123443212300.00".utf8))
        let key = MACKey(secret: SecretBytes(Array("065a62448fb75fce3764dcbe68f9908d".utf8)))
        #expect(try mac.valueSoFar() == key.tag(of: Array("123443212300.00".utf8)))
        try mac.update(Array("2012-12-25 00:00:00".utf8))
        #expect(
            try mac.finish() == hexadecimal("51e66ca8fd8eb4bbe02fc6421e0dda1deb94f0c9518996a55bc7a4c242f1c8a9"))
    }
}

private func hexadecimal(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue).map(UInt8.init)
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
