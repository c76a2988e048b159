import FoundationEssentials

extension DownloadProbe {
    func perform() async throws {
        guard let url = URL(string: url.contains("://") ? url : "https://\(url)") else {
            throw Failure(.usage, "\(quoted(url)) is not a URL")
        }
        let exceptions = try self.exceptions()
        let proxy = try proxy.map { try HTTPProxy($0) }
        let result = try await HTTPClient().probe(url, trust: trust.trust().excepting(exceptions), proxy: proxy)
        if json { try result.members.print() } else { try print(result) }
        if result.verdict.allowsConnection { return }
        throw Failure(
            .untrusted,
            "\(result.chain.host) port \(result.chain.port) is not trusted: "
                + "\(result.verdict)".split(separator: "\n").joined(separator: "; "), hint: result.exceptionHint)
    }

    /// Those of the keybag; without one there are none.
    private func exceptions() throws -> Set<TrustException> {
        let keybag: Keybag
        do throws(DataProtectionError) { keybag = try self.keybag.open() } catch {
            guard case .because(KeybagFailure.keybagNotFound) = error, !self.keybag.isExplicit else { throw error }
            return []
        }
        return try DownloadQueue(keybag).trustExceptions.exceptions()
    }

    private func print(_ result: ProbeResult) throws {
        var lines = OutputLines()
        func add(_ name: String, _ text: String) throws {
            try lines.add(Array("  \(name)\(String(repeating: " ", count: max(1, 10 - name.count)))\(text)".utf8))
        }
        for (index, certificate) in result.chain.certificates.enumerated() {
            try lines.add(Array("certificate \(index)\(index == 0 ? ": the server's" : "")".utf8))
            try add("subject", certificate.subject)
            try add("issuer", certificate.issuer)
            let names = certificate.hostNames + certificate.addresses
            if !names.isEmpty { try add("names", names.map(shown).joined(separator: ", ")) }
            if let validity = certificate.validity {
                let times = [validity.lowerBound, validity.upperBound].map {
                    spoken(time: UInt64(max(0, $0.timeIntervalSince1970)))
                }
                try add("valid", times.joined(separator: " to "))
            }
            try add("sha-256", "\(CertificatePin.certificate(certificate))")
            try add("key", "\(CertificatePin.publicKey(of: certificate))")
        }
        let verdict = result.verdict.allowsConnection ? "\(result.verdict)" : "not trusted"
        let version = result.version.map { ", \($0)" } ?? ""
        let asks = result.asksForIdentity ? ", asks for a client certificate" : ""
        try lines.add(Array("\(result.chain.host) port \(result.chain.port): \(verdict)\(version)\(asks)".utf8))
        try lines.finish()
    }

    /// A server's words on a terminal.
    private func shown(_ name: String) -> String { hasUnprintable(Array(name.utf8)) ? quoted(name) : name }
}

extension ProbeResult {
    /// What to type to accept it, if anybody can.
    fileprivate var exceptionHint: String? {
        guard case .recoverable(let problems) = verdict, let certificate = problems.first?.certificate,
            problems.allSatisfy({ $0.certificate == certificate })
        else { return nil }
        let reasons = Set(problems.map(\.reason.rawValue)).sorted().map { " --reason \($0)" }.joined()
        return "if its owner confirms the SHA-256: protectfs download trust add "
            + quoted(Origin.authority(chain.host, chain.port))
            + " --certificate \(CertificatePin.certificate(certificate))\(reasons)"
    }

    fileprivate var members: JSON {
        .object([
            ("host", .string(chain.host)), ("port", .optional(chain.port)),
            ("isTrusted", .bool(verdict.allowsConnection)), ("verdict", .string("\(verdict)")),
            ("version", version.map { .string($0) } ?? .null), ("asksForIdentity", .bool(asksForIdentity)),
            ("certificates", .array(chain.certificates.map(\.members))),
        ])
    }
}

extension Certificate {
    private func seconds(_ time: Date?) -> Int64? { time.map { Int64($0.timeIntervalSince1970) } }

    fileprivate var members: JSON {
        .object([
            ("subject", .string(subject)), ("issuer", .string(issuer)),
            ("names", .array((hostNames + addresses).map { .string($0) })),
            ("notBefore", .optional(seconds(validity?.lowerBound))),
            ("notAfter", .optional(seconds(validity?.upperBound))),
            ("sha256", .string("\(CertificatePin.certificate(self))")),
            ("publicKey", .string("\(CertificatePin.publicKey(of: self))")),
        ])
    }
}
