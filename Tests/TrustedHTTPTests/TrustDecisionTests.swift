import CLibSSL
import TestCertificates
import Testing

@testable import TrustedHTTP

@Suite("Trust: verdicts from the results of libcrypto")
struct TrustDecisionTests {
    private func verdict(
        _ codes: [Int32], completed: Bool = true, trust: ServerTrust = ServerTrust(), host: HostFinding = .fits
    ) throws -> TrustVerdict {
        let chain = try presented("server", "intermediate")
        var verification = LibSSL.Verification(chain: chain.certificates, wasCompleted: completed)
        verification.refusals = codes.map { LibSSL.Refusal(code: $0, text: "it", certificate: chain.certificates[0]) }
        return TrustDecision(trust: trust, chain: chain, time: someday, verification: verification, host: host).verdict
    }

    @Test("Seven codes can be excepted, one is a denial, and any other is fatal")
    func codes() throws {
        let recoverable: [Int32: RecoverableReason] = [
            X509_V_ERR_CERT_HAS_EXPIRED: .expired, X509_V_ERR_CERT_NOT_YET_VALID: .notYetValid,
            X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: .selfSigned, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN: .incompleteChain,
            X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT: .incompleteChain,
            X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY: .incompleteChain,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: .incompleteChain,
        ]
        for code: Int32 in 1...400 {
            let verdict = try verdict([code])
            if let reason = recoverable[code] {
                #expect(verdict.recoverableReasons == [reason], "\(code)")
            } else if code == X509_V_ERR_CERT_REJECTED {
                #expect(try verdict == .denied(by: .system(.named("server"))))
            } else {
                #expect(verdict.fatalReasons?.count == 1, "\(code)")
            }
        }
    }

    @Test("A code that is not in the table keeps its number and its name")
    func unlisted() throws {
        #expect(try verdict([X509_V_ERR_OCSP_VERIFY_FAILED]).fatalReasons == [.other(code: 74, "it")])
        #expect(try verdict([X509_V_ERR_UNSPECIFIED]).fatalReasons == [.other(code: 1, "it")])
    }

    @Test("A chain that was not checked to its end is not trusted, not even by an exception")
    func notCompleted() throws {
        let failed = TrustVerdict.evaluationFailed(.cryptographyLibrary("X509_verify_cert"))
        #expect(try verdict([], completed: false) == failed)
        let everything = try TrustException(
            host: "localhost", port: 443, certificate: Hexadecimal.text(Certificate.named("server").sha256),
            reasons: Set(RecoverableReason.allCases))
        let trust = try ServerTrust(exceptions: [everything])
        #expect(try verdict([X509_V_ERR_CERT_HAS_EXPIRED], completed: false, trust: trust) == failed)
        #expect(try verdict([X509_V_ERR_CERT_HAS_EXPIRED], trust: trust) == .explicitlyTrusted)
        #expect(try verdict([X509_V_ERR_CERT_REVOKED], completed: false).fatalReasons == [.revoked])
    }

    @Test("Denied goes before fatal, fatal before recoverable; the same problem is told once")
    func order() throws {
        let codes = [X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_REVOKED]
        #expect(try verdict(codes).fatalReasons == [.revoked])
        #expect(try verdict(codes).besideReasons == [.expired])
        #expect(try verdict(codes + [X509_V_ERR_CERT_REJECTED]) == .denied(by: .system(.named("server"))))
        #expect(try verdict([], host: .noHost("")) == .evaluationFailed(.malformedHostName("")))
        #expect(try verdict([]) == .trusted)
    }
}
