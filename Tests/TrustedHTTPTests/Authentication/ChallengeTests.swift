import FoundationEssentials
import TestEffort
import Testing

@testable import TrustedHTTP

@Suite("Challenges")
struct ChallengeTests {
    @Test("Several in one field, with strings in quotes, tokens and spaces")
    func several() {
        let all = Challenge.all(
            in:
                #"Newauth realm="apps", type=1, title="Login to \"apps\", please", Basic realm = "simple" , NTLM TlRMTVNT/+AB==,Negotiate"#
        )
        #expect(all.map(\.scheme) == ["Newauth", "Basic", "NTLM", "Negotiate"])
        #expect(all[0].parameters == ["realm": "apps", "type": "1", "title": #"Login to "apps", please"#])
        #expect(all[1].realm == "simple" && all[2].token == "TlRMTVNT/+AB==" && all[3].token == nil)
        #expect(all.map(\.method) == [nil, .basic, .ntlm, nil])
    }

    @Test("Several fields, in their order, and the first of a name twice")
    func fields() throws {
        let response = HTTPResponse(
            status: 401,
            headers: [
                HTTPHeader(
                    "WWW-Authenticate", "Digest realm=a, realm=b, nonce=x, algorithm=SHA-256, qop=\"auth-int, AUTH\""),
                HTTPHeader("www-authenticate", "basic REALM=\"ä\""), HTTPHeader("Proxy-Authenticate", "NTLM"),
            ], url: try #require(URL(string: "https://example.org/")), version: "1.1")
        let all = Challenge.all(in: response, named: "WWW-Authenticate")
        #expect(all.map(\.realm) == ["a", "ä"] && all.map(\.method) == [nil, .basic])
        #expect(all[0].digestAlgorithm == "SHA-256")
    }

    @Test(
        "Digest that libcurl cannot do is no method",
        arguments: ["Digest realm=a, algorithm=SHA-512-256", "Digest realm=a, qop=\"auth-int\"", "Digest algorithm=x"])
    func unknownDigest(field: String) { #expect(Challenge.all(in: field).map(\.method) == [nil]) }

    @Test(
        "Digest that libcurl could read otherwise is no method",
        arguments: [
            "Digest realm=a, realm=b", "Digest realm=a b", "Digest realm =a", "Digest realm= a", #"Digest realm="a"#,
            #"Digest realm="a\b""#, #"Digest realm="a"b"#, "Digest realm=a, Basic realm=a, realm=b",
            "Digest realm=a, ;;",
            "Digest realm=a, Digest realm=a", "Digest realm=a, NTLM a=, realm=b",
            #"Digest realm="a, digest realm=b""#, "Digest realm=" + String(repeating: "a", count: 1000),
        ])
    func mistakable(field: String) throws {
        let first = try #require(Challenge.all(in: field).first { $0.scheme == "Digest" })
        #expect(first.method == nil)
    }

    @Test("One that is hidden in another challenge's string comes first, because libcurl finds it")
    func hidden() {
        let all = Challenge.all(in: #"Basic realm="a, Digest realm=b""#)
        #expect(all.map(\.scheme) == ["Digest", "Basic"] && all.map(\.method) == [nil, .basic])
        #expect(Challenge.all(in: #"Basic realm="a", Digest realm="b", Basic realm="c""#)[1].method == .digest)
    }

    @Test("Garbage is no crash, and hides nothing that follows")
    func garbage() {
        #expect(Challenge.all(in: ", ,=,;;; ,Basic realm=x").map(\.realm) == ["x"])
        #expect(Challenge.all(in: "realm=x").isEmpty && Challenge.all(in: "").isEmpty)
        #expect(Challenge.all(in: "Basic realm=\"open").map(\.realm) == ["open"])
        #expect(Challenge.all(in: "Basic realm=\"\\").map(\.realm) == ["\\"])
        var generator = Effort.generator("challenges")
        let bits = ["Basic", "realm", "=", "\"", "\\", ",", " ", "\t", "Digest", "a", "é", "\u{7F}", "==", "NTLM"]
        for _ in 0..<Effort.count(20_000, 2_000_000) {
            let count = Int.random(in: 0..<12, using: &generator)
            _ = Challenge.all(in: (0..<count).map { _ in bits.randomElement(using: &generator)! }.joined())
        }
    }
}

@Suite("Protection spaces")
struct ProtectionSpaceTests {
    let met = ProtectionSpace(host: "example.org", port: 443, realm: "r", method: .digest)

    @Test("An entry leaves open what it does not say")
    func matching() {
        #expect(ProtectionSpace(host: "EXAMPLE.org", port: 443).matches(met))
        #expect(ProtectionSpace(host: "example.org", port: 443, realm: "r", method: .digest).matches(met))
        for other in [
            ProtectionSpace(host: "example.com", port: 443), ProtectionSpace(host: "example.org", port: 8443),
            ProtectionSpace(.http, host: "example.org", port: 443),
            ProtectionSpace(host: "example.org", port: 443, realm: "R"),
            ProtectionSpace(host: "example.org", port: 443, method: .basic),
            ProtectionSpace(.proxy, host: "example.org", port: 443),
            ProtectionSpace(host: "example.org", port: 443, realm: ""),
        ] { #expect(!other.matches(met), "\(other)") }
    }

    @Test("An empty realm is one; NTLM has none")
    func noRealm() {
        let ntlm = ProtectionSpace(host: "example.org", port: 443, method: .ntlm)
        #expect(!ProtectionSpace(host: "example.org", port: 443, realm: "").matches(ntlm))
        #expect(ProtectionSpace(host: "example.org", port: 443).matches(ntlm))
    }

    @Test("The nearest entry is the one that differs least, the first of equals")
    func nearest() {
        let port = ProtectionSpace(host: "example.org", port: 8443)
        let realm = ProtectionSpace(host: "example.org", port: 443, realm: "other")
        let host = ProtectionSpace(host: "example.com", port: 443)
        #expect(ProtectionSpace.nearest(to: met, in: [host, port, realm]) == realm)
        #expect(ProtectionSpace.nearest(to: met, in: [host, port]) == port)
        #expect(ProtectionSpace.nearest(to: met, in: [host, ProtectionSpace(host: "example.net", port: 443)]) == host)
        #expect(ProtectionSpace.nearest(to: met, in: []) == nil)
        #expect("\(met)" == "https://example.org:443 (realm \"r\", digest)")
    }
}

@Suite("Which challenge is answered")
struct ChallengeDecisionTests {
    private let place = ProtectionSpace(host: "example.org", port: 443)

    private func decide(
        _ field: String, _ listed: [ProtectionSpace]? = nil, at place: ProtectionSpace? = nil, hasTokens: Bool = false
    ) -> ChallengeDecision {
        .of(
            field.split(separator: "\n").flatMap { Challenge.all(in: String($0)) }, at: place ?? self.place,
            listed: listed ?? [self.place], hasTokens: hasTokens)
    }

    private func order(_ decision: ChallengeDecision) -> [String] {
        guard case .candidates(let all) = decision else { return ["\(decision)"] }
        return all.map { "\($0.space.method!)/\($0.challenge.digestAlgorithm ?? "")" }
    }

    @Test("The strongest first")
    func strength() {
        let field = "Basic realm=a, NTLM, Digest realm=a algorithm=MD5, Bearer"
        #expect(
            order(decide(field.replacing("a algorithm", with: "a, algorithm"))) == ["digest/MD5", "ntlm/", "basic/"])
        #expect(order(decide("Basic realm=a, Digest realm=a, algorithm=SHA-256")) == ["digest/SHA-256", "basic/"])
        #expect(order(decide("Basic realm=a, Bearer", hasTokens: true)) == ["bearer/", "basic/"])
    }

    @Test("Of several of Digest the first, because that is what libcurl answers")
    func firstDigest() {
        #expect(order(decide("Digest realm=a, algorithm=SHA-256\nDigest realm=a, algorithm=MD5")) == ["digest/SHA-256"])
        #expect(
            order(decide("Digest realm=a, algorithm=SHA-512-256\nDigest realm=a, algorithm=MD5, Basic realm=a")) == [
                "basic/"
            ])
    }

    @Test("Unsupported methods are told by name, and an unlisted space with the entry nearest to it")
    func refusals() {
        #expect(decide("Negotiate, Hoba x=1") == .unsupported(["Negotiate", "Hoba"]))
        #expect(decide("Bearer realm=a") == .unsupported(["Bearer"]))
        #expect(decide("") == .unchallenged)
        let met = ProtectionSpace(host: "example.org", port: 443, realm: "b", method: .basic)
        let entry = ProtectionSpace(host: "example.org", port: 443, realm: "a")
        #expect(decide("Basic realm=b", [entry]) == .notListed(met: met, nearest: entry))
        #expect(order(decide("Basic realm=b, Digest realm=a, qop=auth", [entry])) == ["digest/MD5"])
    }

    @Test("However many challenges a server sends, a few are looked at, in a time that does not grow by their square")
    func many() {
        let schemes = (0..<40_000).map { "a\($0)" }.joined(separator: ",")
        guard case .unsupported(let methods) = decide("\(schemes), Digest realm=\"a") else {
            Issue.record("not unsupported")
            return
        }
        #expect(methods.count == 8)
        let realms = (0..<5000).map { "Basic realm=\"\($0)\"" }.joined(separator: ", ")
        #expect(order(decide("\(realms), Digest realm=a, qop=auth")).count == 8)
    }

    @Test("A proxy is spoken to in clear: it gets a password only if its entry says so")
    func proxies() {
        let proxy = ProtectionSpace(.proxy, host: "proxy", port: 3128)
        let open = ProtectionSpace(.proxy, host: "proxy", port: 3128)
        let basic = ProtectionSpace(.proxy, host: "proxy", port: 3128, method: .basic)
        #expect(order(decide("Basic realm=a", [basic], at: proxy)) == ["basic/"])
        guard case .notListed = decide("Basic realm=a", [open], at: proxy) else {
            Issue.record("listed")
            return
        }
        #expect(order(decide("Basic realm=a, Digest realm=a", [open], at: proxy)) == ["digest/MD5"])
    }
}
