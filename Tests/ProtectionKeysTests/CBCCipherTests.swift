import Testing

@testable import ProtectionKeys

@Suite struct CBCCipherTests {
    @Test(arguments: try Vector.all(in: "aes-256-cbc"))
    func outputIsThePublishedOne(vector: Vector) throws {
        let (text, sealed) = (try vector.bytes("text"), try vector.bytes("sealed"))
        for pieceBlocks in 1...4 {
            try vector.check("sealed") { try run(.sealing, vector, text, pieceBlocks * 16) }
            try vector.check("text") { try run(.opening, vector, sealed, pieceBlocks * 16) }
        }
    }

    private func run(
        _ direction: CBCCipher.Direction, _ vector: Vector, _ input: [UInt8], _ piece: Int
    ) throws -> [UInt8] {
        var cipher = try CBCCipher(direction, key: vector.secret("key"), initial: vector.bytes("initial"))
        var output: [UInt8] = []
        for start in stride(from: 0, to: input.count, by: piece) {
            // In place, as whoever opens large messages does.
            var part = Array(input[start...].prefix(piece))
            try part.lendMutableBytes { bytes throws(KeyError) in
                try cipher.update(UnsafeRawBufferPointer(bytes), into: bytes)
            }
            output += part
        }
        return output
    }

    @Test(arguments: [(31, 16), (33, 16), (32, 15), (32, 0)])
    func wrongLengthsAreRefused(key: Int, initial: Int) {
        #expect(throws: KeyError.self) {
            _ = try CBCCipher(.sealing, key: SecretBytes(zeroed: key), initial: [UInt8](repeating: 0, count: initial))
        }
    }

    @Test(arguments: [(1, 1), (15, 15), (17, 17), (16, 32), (32, 16)])
    func onlyWholeBlocksGoIn(input: Int, output: Int) throws {
        var cipher = try CBCCipher(.sealing, key: SecretBytes(zeroed: 32), initial: [UInt8](repeating: 0, count: 16))
        let text = [UInt8](repeating: 0, count: input)
        var room = [UInt8](repeating: 0, count: output)
        #expect(throws: KeyError.self) {
            try text.lendBytes { text throws(KeyError) in
                try room.lendMutableBytes { room throws(KeyError) in try cipher.update(text, into: room) }
            }
        }
    }
}
