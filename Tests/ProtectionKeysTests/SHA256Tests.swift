import Testing

@testable import ProtectionKeys

@Suite struct SHA256Tests {
    @Test(arguments: try Vector.all(in: "sha-256"))
    func digestIsThePublishedOne(vector: Vector) throws {
        try vector.check("digest") { try Digest.sha256(message(of: vector)) }
    }

    @Test(arguments: try Vector.all(in: "sha-256"))
    func digestIntoASecretIsThePublishedOne(vector: Vector) throws {
        let input = try message(of: vector)
        try vector.check("digest") {
            try input.lendBytes { input throws(KeyError) in
                try SecretBytes(byteCount: 32) { digest throws(KeyError) in
                    try LibCrypto.sha256(input, into: digest)
                }.readable()
            }
        }
    }

    @Test(arguments: [1, 55, 56, 63, 64, 65])
    func piecesAreHashedAsOne(pieceLength: Int) throws {
        let vector = try Vector.named("sha-256/896-bits")
        let message = try vector.bytes("message")
        try vector.check("digest") {
            try message.withUnsafeBytes { message in
                let starts = stride(from: 0, to: message.count, by: pieceLength)
                return try LibCrypto.sha256(
                    pieces: starts.map { .init(rebasing: message[$0..<min($0 + pieceLength, message.count)]) })
            }
        }
    }

    private func message(of vector: Vector) throws -> [UInt8] {
        let message = try vector.bytes("message")
        guard vector.has("repeated") else { return message }
        return (0..<(try vector.number("repeated"))).flatMap { _ in message }
    }
}
