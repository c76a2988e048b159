import TestCertificates
import Testing

@testable import TrustedHTTP

@Suite("Trust: which host a certificate is for")
struct TrustHostTests {
    @Test(
        "Names and addresses in the SubjectAltName, and nowhere else",
        arguments: [
            ("server", "localhost", true), ("server", "LOCALHOST", true), ("server", "localhost.", true),
            ("server", "127.0.0.1", true), ("server", "::1", true), ("server", "[::1]", true),
            ("server", "::1%lo", true),
            ("server", "0:0:0:0:0:0:0:1", true), ("server", "127.0.0.2", false), ("server", "::2", false),
            ("server", "server", false), ("server", "a.localhost", false), ("server", "local", false),
            ("address-only", "127.0.0.1", true), ("address-only", "localhost", false),
            ("common-name-only", "localhost", false), ("nameless", "nameless", false),
            ("wildcard", "www.example.org", true), ("wildcard", "WWW.Example.ORG", true),
            ("wildcard", "example.org", false),
            ("wildcard", "a.b.example.org", false), ("wildcard", "www.example.com", false),
            ("wildcard-in-label", "foo.example.org", false), ("wildcard-in-label", "f*.example.org", false),
            ("wildcard-of-everything", "example.org", false), ("wildcard-of-everything", "org", false),
            ("nul-in-name", "localhost", false),
        ])
    func hosts(name: String, host: String, fits: Bool) throws {
        let certificate = try Certificate.named(name)
        let trust = try ServerTrust(anchors: .only([certificate]))
        let verdict = trust.verdict(PresentedChain(certificates: [certificate], host: host, port: 443))
        if fits {
            #expect(verdict == .trusted)
        } else if HostName(host) == nil {
            #expect(verdict == .evaluationFailed(.malformedHostName(host)))
        } else {
            #expect(verdict.recoverableReasons == [.hostMismatch])
        }
    }

    @Test("Neither a name nor an address", arguments: [".example.org", ".", "", "*.example.org", "127.0.0.1."])
    func noPattern(host: String) throws {
        let certificate = try Certificate.named("wildcard")
        let trust = try ServerTrust(anchors: .only([certificate]))
        let verdict = trust.verdict(PresentedChain(certificates: [certificate], host: host, port: 443))
        #expect(verdict == .evaluationFailed(.malformedHostName(host)))
    }

    @Test("An expected name takes the place of the one that is asked for")
    func expected() throws {
        let chain = try presented("server", "intermediate", as: "192.0.2.7")
        #expect(try ServerTrust.root().verdict(chain).recoverableReasons == [.hostMismatch])
        #expect(try ServerTrust.root(host: .expected("localhost")).verdict(chain) == .trusted)
        #expect(try ServerTrust.root(host: .expected("::1")).verdict(chain) == .trusted)
        let local = try presented("server", "intermediate")
        #expect(
            try ServerTrust.root(host: .expected("other.example.org")).verdict(local).recoverableReasons == [
                .hostMismatch
            ])
    }

    @Test("A mismatch says for which hosts the certificate is")
    func message() throws {
        let verdict = try ServerTrust.root("intermediate").verdict(presented("for-others"))
        guard case .recoverable(let problems) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(problems.map(\.seen) == ["other.example.org"] && problems.map(\.wanted) == ["localhost"])
    }
}
