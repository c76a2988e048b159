import Testing

@testable import ProtectionKeys

@Suite struct PBKDF2Tests {
    @Test(arguments: try Vector.all(in: "pbkdf2"))
    func outputIsThePublishedOne(vector: Vector) throws {
        let passcode = try vector.secret("passcode")
        let salt = try vector.bytes("salt")
        let iterations = try vector.number("iterations")
        let byteCount = try vector.bytes("output").count
        try vector.check("output") {
            try passcode.withUnsafeBytes { passcode throws(KeyError) in
                try SecretBytes(byteCount: byteCount) { output throws(KeyError) in
                    try LibCrypto.pbkdf2SHA256(passcode: passcode, salt: salt, iterations: iterations, into: output)
                }
            }.readable()
        }
    }
}
