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
            try PBKDF2.derive(passcode, salt: salt, iterations: iterations, byteCount: byteCount).readable()
        }
    }

    /// Durations that a machine might show, and what the fastest of the three means for half a second.
    @Test(
        arguments: [
            ([20, 20, 20], 2_500_000), ([90, 20, 50], 2_500_000), ([500, 600, 700], 100_000),
            ([5_000, 5_000, 5_000], 10_000),
            ([0, 1, 1], 50_000_000_000_000),
        ] as [([Int64], Int)])
    func calibratesByTheFastest(milliseconds: [Int64], iterations: Int) throws {
        var left = milliseconds
        let found = try PBKDF2.iterations(taking: .milliseconds(500)) { work throws(KeyError) in
            try work()
            return .milliseconds(left.removeFirst())
        }
        #expect(found == iterations)
        #expect(left.isEmpty)
    }

    /// What a caller of HMAC must know, and why `PasswordHash` refuses such passwords.
    @Test func zerosBehindAPasswordAreNotSeen() throws {
        let salt = run(from: 1, count: 16)
        let short = try PBKDF2.derive(SecretBytes([0x61]), salt: salt, iterations: 2).readable()
        #expect(try PBKDF2.derive(SecretBytes([0x61, 0x00]), salt: salt, iterations: 2).readable() == short)
        #expect(try PBKDF2.derive(SecretBytes([0x61, 0x01]), salt: salt, iterations: 2).readable() != short)
    }
}
