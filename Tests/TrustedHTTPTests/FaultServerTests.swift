import FaultServer
import Foundation
import Testing

/// What the other tests rely on.
@Suite("The server of the tests")
struct FaultServerTests {
    @Test(
        "It verifies Digest as RFC 7616 §3.9.1 does",
        arguments: [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ])
    func digest(algorithm: String, response: String) throws {
        let made = try FaultServer().digestResponse(
            algorithm: algorithm, user: "Mufasa", realm: "http-auth@example.org", password: "Circle of Life",
            method: "GET", uri: "/dir/index.html", nonce: "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
            count: "00000001", cnonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", qop: "auth")
        #expect(made == response)
    }

    @Test("Its patterns do not repeat where somebody would cut, and differ by seed")
    func patterns() {
        let pattern = Answer.pattern(0..<200_000)
        #expect(Array(pattern[100_000...]) == Answer.pattern(100_000..<200_000))
        #expect(Array(pattern[..<1000]) != Array(pattern[65_536..<66_536]))
        #expect(Answer.pattern(seed: 2, 0..<100) != Answer.pattern(seed: 1, 0..<100))
    }
}
