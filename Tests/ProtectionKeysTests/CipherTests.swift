import Testing

@testable import ProtectionKeys

@Suite struct CipherTests {
    static let key = run(from: 0x01)
    static let nonce = run(from: 0xC0, count: 12)
    static let associated = run(from: 0xE0, count: 5)

    @Test(arguments: try Vector.all(in: "aes-256-gcm").filter { $0.expect == .success })
    func sealIsThePublishedOne(vector: Vector) throws {
        var sealer = try Sealer(key: vector.secret("key"))
        let sealed = try sealer.sealed(
            vector.bytes("text"), nonce: vector.bytes("nonce"), associated: vector.bytes("associated"))
        let expected = try vector.bytes("nonce") + vector.bytes("ciphertext") + vector.bytes("tag")
        #expect(sealed == expected)
    }

    @Test(arguments: try Vector.all(in: "aes-256-gcm"))
    func openIsThePublishedOne(vector: Vector) throws {
        var opener = try Opener(key: vector.secret("key"))
        let sealed = try vector.bytes("nonce") + vector.bytes("ciphertext") + vector.bytes("tag")
        let associated = try vector.bytes("associated")
        try vector.check("text") { try opener.opened(sealed, associated: associated) }
    }

    @Test(arguments: [0, 1, 15, 16, 17, 4095, 4096, 4097, 65536])
    func whatIsSealedOpens(length: Int) throws {
        let text = run(from: 0x33, count: length)
        var sealer = try Sealer(key: SecretBytes(Self.key))
        var opener = try Opener(key: SecretBytes(Self.key))
        let sealed = try sealer.sealed(text, nonce: Self.nonce, associated: Self.associated)
        #expect(sealed.count == length + 28)
        #expect(sealed.starts(with: Self.nonce))
        #expect(length < 16 || !sealed.dropFirst(12).starts(with: text.prefix(16)), "the text is hidden")
        let opened = try opener.opened(sealed, associated: Self.associated)
        #expect(opened == text)
    }

    @Test(arguments: [0, 1, 17])
    func everyFlippedBitIsRefusedAndTheOutputZero(length: Int) throws {
        let sealed = try Self.sealed(run(from: 0x33, count: length))
        var opener = try Opener(key: SecretBytes(Self.key))
        for flipped in everyBitFlipped(in: sealed) {
            let output = try opener.refused(flipped, associated: Self.associated)
            #expect(output == [UInt8](repeating: 0, count: length))
        }
    }

    @Test func everyFlippedBitOfTheAssociatedDataIsRefusedAndTheOutputZero() throws {
        let sealed = try Self.sealed(run(from: 0x33, count: 17))
        var opener = try Opener(key: SecretBytes(Self.key))
        let others = everyBitFlipped(in: Self.associated) + [[], Self.associated.dropLast(), Self.associated + [0]]
        for associated in others {
            let output = try opener.refused(sealed, associated: associated)
            #expect(output == [UInt8](repeating: 0, count: 17))
        }
    }

    @Test func everyFlippedBitOfTheKeyIsRefusedAndTheOutputZero() throws {
        let sealed = try Self.sealed(run(from: 0x33, count: 17))
        for key in everyBitFlipped(in: Self.key) {
            var opener = try Opener(key: SecretBytes(key))
            let output = try opener.refused(sealed, associated: Self.associated)
            #expect(output == [UInt8](repeating: 0, count: 17))
        }
    }

    @Test(arguments: [28, 29, 44])
    func everyTruncationIsRefusedAndTheOutputZero(count: Int) throws {
        let sealed = try Self.sealed(run(from: 0x33, count: 17))
        var opener = try Opener(key: SecretBytes(Self.key))
        let output = try opener.refused(Array(sealed.prefix(count)), associated: Self.associated)
        #expect(output == [UInt8](repeating: 0, count: count - 28))
    }

    @Test(arguments: [(0, 0), (27, 0), (28, 1), (45, 16), (45, 18), (45, 0)])
    func anOutputThatDoesNotFitIsRefused(sealedLength: Int, outputLength: Int) throws {
        let sealed = Array(try Self.sealed(run(from: 0x33, count: 17)).prefix(sealedLength))
        var opener = try Opener(key: SecretBytes(Self.key))
        var output = [UInt8](repeating: 0xAA, count: outputLength)
        let expected = KeyError.wrongLength(of: "sealed bytes", expected: outputLength + 28, actual: sealedLength)
        #expect(throws: expected) { try opener.open(sealed, associated: Self.associated, into: &output) }
    }

    @Test func oneSealerSealsManyTextsInAnyOrderOfLengths() throws {
        var sealer = try Sealer(key: SecretBytes(Self.key))
        for length in [4096, 0, 1, 4096, 16, 65536, 3] {
            let text = run(from: 0x33, count: length)
            let sealed = try sealer.sealed(text, nonce: Self.nonce, associated: Self.associated)
            let alone = try Self.sealed(text)
            #expect(sealed == alone)
        }
    }

    @Test func anOpenerOpensAgainAfterARefusal() throws {
        let text = run(from: 0x33, count: 17)
        let sealed = try Self.sealed(text)
        var opener = try Opener(key: SecretBytes(Self.key))
        for flipped in everyBitFlipped(in: sealed).prefix(200) {
            _ = try opener.refused(flipped, associated: Self.associated)
            let opened = try opener.opened(sealed, associated: Self.associated)
            #expect(opened == text)
        }
    }

    static func sealed(_ text: [UInt8]) throws -> [UInt8] {
        var sealer = try Sealer(key: SecretBytes(key))
        return try sealer.sealed(text, nonce: nonce, associated: associated)
    }
}

extension Sealer {
    mutating func sealed(
        _ text: [UInt8], nonce: [UInt8], associated: [UInt8]
    ) throws(KeyError) -> [UInt8] {
        var output = [UInt8](repeating: 0xAA, count: text.count + 28)
        try text.lendBytes { text throws(KeyError) in
            try nonce.lendBytes { nonce throws(KeyError) in
                try associated.lendBytes { associated throws(KeyError) in
                    try output.lendMutableBytes { output throws(KeyError) in
                        try seal(text, nonce: nonce, associated: associated, into: output)
                    }
                }
            }
        }
        return output
    }
}

extension Opener {
    fileprivate mutating func open(
        _ sealed: [UInt8], associated: [UInt8], into output: inout [UInt8]
    ) throws(KeyError) {
        try sealed.lendBytes { sealed throws(KeyError) in
            try associated.lendBytes { associated throws(KeyError) in
                try output.lendMutableBytes { output throws(KeyError) in
                    try open(sealed, associated: associated, into: output)
                }
            }
        }
    }

    mutating func opened(_ sealed: [UInt8], associated: [UInt8]) throws(KeyError) -> [UInt8] {
        var output = [UInt8](repeating: 0xAA, count: sealed.count - 28)
        try open(sealed, associated: associated, into: &output)
        return output
    }

    /// What is in the output, which was not zero before, after ``KeyError/authenticationFailed``.
    fileprivate mutating func refused(_ sealed: [UInt8], associated: [UInt8]) throws -> [UInt8] {
        var output = [UInt8](repeating: 0xAA, count: sealed.count - 28)
        #expect(throws: KeyError.authenticationFailed) {
            try self.open(sealed, associated: associated, into: &output)
        }
        return output
    }
}
