import TestCertificates

@testable import TrustedHTTP

/// A time at which the good ones of ``TestCertificates`` are valid: 2030-01-01 00:00:00 UTC.
let someday: Int64 = 1_893_456_000

extension Certificate {
    static func named(_ name: String) throws -> Certificate { try Certificate(der: TestCertificates.certificate(name)) }
}

/// Certificates as a server presents them.
func presented(_ names: String..., as host: String = "localhost", port: Int = 443) throws -> PresentedChain {
    PresentedChain(certificates: try names.map(Certificate.named), host: host, port: port)
}

/// Roots of a system on which there is nothing.
extension SystemRoots {
    static let empty = SystemRoots(file: "/nonexistent", directory: "/nonexistent")
}

extension ServerTrust {
    /// The root of the tests, and nothing of the system's.
    static func root(
        _ anchors: String..., pins: [PinGroup] = [], host: HostCheck = .requested, exceptions: Set<TrustException> = []
    ) throws -> ServerTrust {
        try ServerTrust(
            anchors: .only(try (anchors.isEmpty ? ["root"] : anchors).map(Certificate.named)), pins: pins, host: host,
            exceptions: exceptions)
    }

    func verdict(_ chain: PresentedChain, at time: Int64 = someday) -> TrustVerdict {
        evaluate(chain, at: time, roots: .empty)
    }
}

extension TrustVerdict {
    var recoverableReasons: [RecoverableReason]? {
        guard case .recoverable(let problems) = self else { return nil }
        return problems.map(\.reason).sorted { $0.rawValue < $1.rawValue }
    }

    var fatalReasons: [FatalReason]? {
        guard case .fatal(let problems, _) = self else { return nil }
        return problems.map(\.reason)
    }

    var besideReasons: [RecoverableReason]? {
        guard case .fatal(_, let problems) = self else { return nil }
        return problems.map(\.reason)
    }
}
