import Testing

@testable import ProtectionKeys

@Suite struct SHA1DerivationTests {
    @Test(arguments: try Vector.all(in: "pbkdf2-sha1"))
    func outputIsThePublishedOne(vector: Vector) throws {
        // What stands behind the prefix does not count.
        let password = try vector.bytes("password")
        let longer = SecretBytes(password + [1, 2, 3])
        try vector.check("output") {
            try longer.pbkdf2SHA1(
                prefix: password.count, salt: vector.bytes("salt"), iterations: vector.number("iterations"),
                byteCount: vector.bytes("output").count
            ).readable()
        }
    }

    @Test func noPrefixIsLongerThanThePassword() {
        let password = SecretBytes([1, 2, 3])
        #expect(throws: KeyError.wrongLength(of: "password", expected: 3, actual: 4)) {
            _ = try password.pbkdf2SHA1(prefix: 4, salt: [0], iterations: 1, byteCount: 32)
        }
    }
}
