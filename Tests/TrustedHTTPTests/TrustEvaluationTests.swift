import TestCertificates
import Testing

@testable import TrustedHTTP

@Suite("Trust: certificates that vouch for a server")
struct TrustEvaluationTests {
    @Test(
        "A chain to an anchor is trusted, in whatever order it is presented",
        arguments: [
            ["server", "intermediate"], ["server", "intermediate", "root"], ["server", "root", "intermediate"],
            ["server", "wrong", "intermediate"], ["direct"], ["rsa", "rsa-authority"],
        ])
    func good(names: [String]) throws {
        let certificates = try names.map { try Certificate.named($0 == "wrong" ? "other-root" : $0) }
        let chain = PresentedChain(certificates: certificates, host: "localhost", port: 443)
        #expect(try ServerTrust.root().verdict(chain) == .trusted)
    }

    @Test("Another authority's certificate is not trusted; nor is one whose root is presented but unknown")
    func wrongAuthority() throws {
        let trust = try ServerTrust.root()
        #expect(trust.verdict(try presented("of-other-root")).recoverableReasons == [.incompleteChain])
        #expect(trust.verdict(try presented("of-other-root", "other-root")).recoverableReasons == [.unknownRoot])
        let other = try ServerTrust.root("other-root")
        #expect(other.verdict(try presented("server", "intermediate")).recoverableReasons == [.unknownRoot])
        #expect(other.verdict(try presented("server")).recoverableReasons == [.incompleteChain])
    }

    @Test("Without its intermediate a chain is incomplete, unless that one is an anchor")
    func missingIntermediate() throws {
        #expect(try ServerTrust.root().verdict(try presented("server")).recoverableReasons == [.incompleteChain])
        #expect(try ServerTrust.root("intermediate").verdict(try presented("server")) == .trusted)
        #expect(try ServerTrust.root("root", "intermediate").verdict(try presented("server")) == .trusted)
    }

    @Test("A self-signed certificate is trusted where it is an anchor itself, and nowhere else")
    func selfSigned() throws {
        let chain = try presented("self-signed")
        #expect(try ServerTrust.root().verdict(chain).recoverableReasons == [.selfSigned])
        #expect(try ServerTrust.root("self-signed").verdict(chain) == .trusted)
        // It vouches for nobody else.
        #expect(
            try ServerTrust.root("self-signed").verdict(try presented("server")).recoverableReasons == [
                .incompleteChain
            ])
        // A leaf that is no authority may be the anchor, too.
        #expect(try ServerTrust.root("server").verdict(try presented("server")) == .trusted)
    }

    @Test("Additional anchors count beside the system's, and the system's beside them")
    func additional() throws {
        let directory = try RootDirectory()
        let roots = SystemRoots(file: directory.file, directory: "/nonexistent")
        try directory.write("root")
        let (ours, others) = (try presented("server", "intermediate"), try presented("of-other-root"))
        let system = ServerTrust()
        let both = try ServerTrust(anchors: .additional([.named("other-root")]))
        #expect(system.evaluate(ours, at: someday, roots: roots) == .trusted)
        #expect(system.evaluate(others, at: someday, roots: roots).recoverableReasons == [.incompleteChain])
        #expect(both.evaluate(ours, at: someday, roots: roots) == .trusted)
        #expect(both.evaluate(others, at: someday, roots: roots) == .trusted)
        // Only those given: the system has no say.
        let only = try ServerTrust.root("other-root")
        #expect(only.evaluate(ours, at: someday, roots: roots).recoverableReasons == [.unknownRoot])
    }

    @Test("Nobody is trusted without certificates")
    func nothing() throws {
        let chain = PresentedChain(certificates: [], host: "localhost", port: 443)
        #expect(try ServerTrust.root().verdict(chain) == .evaluationFailed(.noCertificate))
    }

    @Test("Times: before, after, and at the very seconds; an intermediate's count, and an anchor's")
    func times() throws {
        let trust = try ServerTrust.root()
        #expect(trust.verdict(try presented("expired", "intermediate")).recoverableReasons == [.expired])
        #expect(trust.verdict(try presented("not-yet-valid", "intermediate")).recoverableReasons == [.notYetValid])

        let chain = try presented("expired", "intermediate")
        let validity = try #require(chain.certificates[0].parsed.validity)
        #expect(trust.verdict(chain, at: validity.lowerBound) == .trusted)
        #expect(trust.verdict(chain, at: validity.upperBound - 1) == .trusted)
        #expect(trust.verdict(chain, at: validity.upperBound).recoverableReasons == [.expired])
        #expect(trust.verdict(chain, at: validity.lowerBound - 1).recoverableReasons?.contains(.notYetValid) == true)

        let under = try presented("under-expired", "expired-intermediate")
        guard case .recoverable(let problems) = trust.verdict(under) else {
            Issue.record("\(trust.verdict(under))")
            return
        }
        #expect(problems.map(\.reason) == [.expired] && problems.map(\.certificate) == [under.certificates[1]])
        #expect(try ServerTrust.root("expired-intermediate").verdict(under).recoverableReasons == [.expired])
    }

    @Test("All that is wrong is told at once")
    func several() throws {
        let chain = try presented("expired-and-for-others")
        #expect(
            try ServerTrust.root().verdict(chain).recoverableReasons == [.expired, .hostMismatch, .incompleteChain])
        let verdict = try ServerTrust.root(pins: [.server(.publicKey(of: .named("server")))]).verdict(chain)
        #expect(verdict.fatalReasons == [.pinMismatch])
        #expect(Set(verdict.besideReasons ?? []) == [.expired, .hostMismatch, .incompleteChain])
    }

    @Test(
        "A fatal reason stays fatal despite an exception",
        arguments: [
            (["under-no-authority", "no-authority"], FatalReason.notAnAuthority),
            (["under-half-authority", "half-authority"], .notAnAuthority),
            (["too-deep", "too-deep-authority", "intermediate"], .notAnAuthority),
            (["outside-constraint", "constrained"], .nameConstraint),
            (["in-excluded", "constrained"], .nameConstraint),
            (["client", "intermediate"], .notForServers),
            (["strange", "intermediate"], .extensionNotUnderstood),
            (["weak-key", "intermediate"], .weakKey),
            (["weak-signature", "rsa-authority"], .weakSignature),
        ])
    func fatal(names: [String], reason: FatalReason) throws {
        let chain = PresentedChain(certificates: try names.map(Certificate.named), host: "localhost", port: 443)
        let verdict = try ServerTrust.root().verdict(chain)
        #expect(verdict.fatalReasons?.contains(reason) == true, "\(verdict)")
        let exceptions = Set(
            try chain.certificates.map {
                try TrustException(
                    host: "localhost", port: 443, certificate: Hexadecimal.text($0.sha256),
                    reasons: Set(RecoverableReason.allCases))
            })
        #expect(try ServerTrust.root(exceptions: exceptions).verdict(chain).fatalReasons?.contains(reason) == true)
    }

    @Test("An authority's constraint allows what it allows")
    func constraint() throws {
        let chain = try presented("inside-constraint", "constrained", as: "www.example.org")
        #expect(try ServerTrust.root().verdict(chain) == .trusted)
    }

    @Test("A flipped bit of a signature is fatal")
    func badSignature() throws {
        var der = TestCertificates.certificate("direct")
        der[der.count - 1] ^= 1
        let chain = PresentedChain(certificates: [try Certificate(der: der)], host: "localhost", port: 443)
        #expect(try ServerTrust.root().verdict(chain).fatalReasons?.contains(.badSignature) == true)
    }

    @Test("A distrusted certificate or key is denied, presented or not, and whatever else is wrong")
    func distrusted() throws {
        let chain = try presented("server", "intermediate")
        for name in ["server", "intermediate", "root"] {
            let certificate = try Certificate.named(name)
            for pin in [CertificatePin.certificate(certificate), .publicKey(of: certificate)] {
                let trust = try ServerTrust(anchors: .only([.named("root")]), distrusted: [pin])
                #expect(trust.verdict(chain) == .denied(by: .distrusted(certificate)))
            }
        }
    }
}
