extension DownloadTrustAdd {
    func perform() async throws {
        let reasons = try Set(
            reason.map { word in
                guard let reason = RecoverableReason(rawValue: word) else {
                    let all = RecoverableReason.allCases.map(\.rawValue).joined(separator: ", ")
                    throw Failure(.usage, "\(quoted(word)) cannot be excepted; what can is \(all)")
                }
                return reason
            })
        let space = try ProtectionSpace(serverArgument: server)
        let exception = try TrustException(
            host: space.host, port: space.port, certificate: certificate, reasons: reasons)
        try keybag.downloads().trustExceptions.add(exception)
    }
}

extension DownloadTrustList {
    func perform() async throws {
        let exceptions = try keybag.downloads().trustExceptions.exceptions().sorted {
            ($0.host, $0.port, $0.digits) < ($1.host, $1.port, $1.digits)
        }
        if json { return try JSON.array(exceptions.map(\.members)).print() }
        var lines = OutputLines()
        for exception in exceptions {
            let words = [exception.server, exception.digits] + [exception.words.joined(separator: ",")]
            try lines.add(Array(words.joined(separator: "  ").utf8))
        }
        try lines.finish()
    }
}

extension DownloadTrustRemove {
    func perform() async throws {
        let space = try ProtectionSpace(serverArgument: server)
        let digest = try certificate.map { try CertificatePin(.certificate, $0).sha256 }
        let removed = try keybag.downloads().trustExceptions.remove(
            host: space.host, port: space.port, certificateSHA256: digest)
        guard removed.isEmpty else { return }
        throw Failure(
            .notFound, "nothing is excepted for \(quoted(server))", hint: "see all: protectfs download trust list")
    }
}

extension TrustException {
    fileprivate var digits: String { Hexadecimal.text(certificateSHA256) }
    fileprivate var server: String { Origin.authority(host, port) }
    fileprivate var words: [String] { reasons.map(\.rawValue).sorted() }

    fileprivate var members: JSON {
        .object([
            ("host", .string(host)), ("port", .optional(port)), ("certificate", .string(digits)),
            ("reasons", .array(words.map { .string($0) })),
        ])
    }
}
