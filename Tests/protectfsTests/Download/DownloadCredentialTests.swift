import FaultServer
import Foundation
import Testing

@Suite("download: credentials")
struct DownloadCredentialTests {
    private let bed: DownloadSandbox

    init() throws {
        bed = try DownloadSandbox()
        try bed.server.answer("/a", Answer(length: 1000))
        try bed.server.guardPaths("/", .basic("user", "correct horse"))
    }

    private var server: String { "localhost:\(bed.server.port)" }

    /// `protectfs download …` with `secret` at descriptor 3.
    private func download(_ words: String..., secret: String) throws -> Finished {
        try bed.sandbox.run(["download"] + words, passcodes: Data((secret + "\n").utf8))
    }

    private func get(_ words: String..., secret: String = "") throws -> Finished {
        let url = bed.server.url("/a").absoluteString
        return try bed.sandbox.run(
            ["download", "get", url, "--only-anchor", "authority.pem"] + words, passcodes: Data(secret.utf8))
    }

    private var sent: [String] { get throws { try bed.server.requests().compactMap { $0["Authorization"] } } }

    @Test("77: none, a wrong one, the same again, which is not sent; another one goes on with the same download")
    func refused() throws {
        let none = try get()
        #expect(none.status == 77 && none.errors.contains("realm \"test\", basic"), "\(none.errors)")
        #expect(
            none.errors.contains(
                "hint: give them: --user NAME; or keep them: protectfs download credentials add '\(server)' --user NAME"
            ))
        for _ in 0..<2 { #expect(try get("--user", "user", "--password-fd", "3", secret: "wrong").status == 77) }
        #expect(try sent.count == 1)
        let right = try get("-u", "user", "--password-fd", "3", secret: "correct horse")
        #expect(right.status == 0, "\(right.errors)")
        #expect(try bed.list().count == 1)
    }

    @Test("add, list, remove; a kept credential is used by every run of the list")
    func kept() throws {
        let added = try download(
            "credentials", "add", server, "--user", "user", "--realm", "test", "--password-fd", "3",
            secret: "correct horse")
        #expect(added.status == 0 && added.text.isEmpty, "\(added.errors)")
        let standBy = try download(
            "credentials", "add", "standby.test", "--bearer-fd", "3", secret: "a token of ours")
        #expect(standBy.status == 0)
        let listed = try bed.download("credentials", "list")
        #expect(listed.text.contains("https://\(server) (realm \"test\")  password  user\n"))
        #expect(listed.text.contains("https://standby.test:443 (bearer)  token\n"))
        let members = try bed.download("credentials", "list", "--json").json() as? [[String: Any]] ?? []
        #expect(members.map { $0["host"] as? String } == ["localhost", "standby.test"])
        #expect(!listed.text.contains("horse") && !listed.text.contains("ours"))
        #expect(try get().status == 0)
        #expect(try bed.download("credentials", "remove", server, "--user", "another").status == 66)
        #expect(try bed.download("credentials", "remove", server, "--user", "user").status == 0)
        #expect(try get("-o", "b").status == 77)
    }

    @Test("A password is asked for without echo, by add and by get")
    func typed() throws {
        let url = bed.server.url("/a").absoluteString
        let wrong = try PseudoTerminal.run(
            ["download", "credentials", "add", server, "-u", "user"], in: bed.sandbox,
            [.expect("Password of 'user': "), .look, .send("wrong\n")])
        #expect(wrong.status == 0 && wrong.echo == [false, true] && !wrong.shown.contains("wrong"))
        let seen = try PseudoTerminal.run(
            ["download", "get", url, "--only-anchor", "authority.pem", "-u", "user"], in: bed.sandbox,
            [.expect("Password of 'user': "), .look, .send("correct horse\n")])
        #expect(seen.status == 0 && seen.echo == [false, true] && !seen.shown.contains("horse"), "\(seen.shown)")
        #expect(try sent.count == 1)
    }

    @Test("A bearer token; a credential for the upload of a file, whose bytes arrive")
    func others() throws {
        try bed.server.guardPaths("/", .bearer("a token"), .basic("user", "correct horse"))
        #expect(try get("--bearer-fd", "3", secret: "a token").status == 0)
        #expect(try bed.sandbox.run(["write", "secret"], input: Data("hello".utf8)).status == 0)
        let url = bed.server.url("/a").absoluteString
        let upload = try download(
            "upload", "secret", url, "--only-anchor", "authority.pem", "--user", "user", "--password-fd", "3",
            "--method", "post", secret: "correct horse")
        #expect(upload.status == 0 && upload.text.isEmpty, "\(upload.errors)")
        let last = try bed.server.requests().last
        #expect(last?.method == "POST" && last?.body == Data("hello".utf8))
        let listed = try bed.list().last
        #expect(listed?["upload"] as? String == "POST" && listed?["state"] as? String == "finished")
        #expect(try bed.download("list").text.contains("100 %"))
    }

    @Test("A client certificate, given and imported; 77: wrong passcode, or none shown; 65: no PKCS #12")
    func identities() throws {
        let client = try bed.server.makeCertificate("client", ["issuer": "authority", "client": true])
        let port = try bed.server.listen("mutual", chain: ["server"], clientAuthority: "authority")
        try bed.server.guardPaths("/nowhere", .basic("user", "correct horse"))
        try bed.server.answer("/open/a", Answer(length: 10))
        try bed.server.guardPaths("/open", .bearer("token"))
        let url = bed.server.url("/open/a", port: port).absoluteString
        func get(_ words: String..., secret: String = "") throws -> Finished {
            try bed.sandbox.run(
                ["download", "get", url, "--only-anchor", "authority.pem", "--retries", "1"] + words,
                passcodes: Data(secret.utf8))
        }
        let file = client + ".p12"
        let wrong = try get("--identity", file, "--identity-passcode-fd", "3", secret: "wrong")
        #expect(wrong.status == 77 && wrong.errors.contains("hint: give its passcode"), "\(wrong.errors)")
        #expect(try get("--identity", "authority.pem", "--identity-passcode-fd", "3", secret: "wrong").status == 65)
        let imported = try download(
            "credentials", "import-identity", file, "localhost:\(port)", "--identity-passcode-fd", "3",
            secret: "passphrase")
        #expect(imported.status == 0, "\(imported.errors)")
        #expect(try bed.download("credentials", "list").text.contains("identity"))
        // The certificate is there, the token is not.
        let half = try get()
        #expect(half.status == 77 && half.errors.contains("bearer"), "\(half.errors)")
        #expect(try bed.server.requests().last?.clientSubject != nil)
        let token = try download("credentials", "add", "localhost:\(port)", "--bearer-fd", "3", secret: "token")
        #expect(token.status == 0)
        #expect(try get().status == 0)
    }

    @Test("77, with words for it: a method that cannot be done. 65: a page to log in")
    func unsupported() throws {
        try bed.server.guardPaths("/a", .other("Negotiate"))
        let done = try get("--user", "user", "--password-fd", "3", secret: "correct horse")
        #expect(done.status == 77 && done.errors.contains("Negotiate"), "\(done.errors)")
        #expect(done.errors.contains("hint: supported are: Basic, Digest"))
        #expect(try sent.isEmpty)
        try bed.server.guardPaths("/", .bearer("token"))
        try bed.server.answer("/form", Answer(status: 200, "<form>", headers: [["Content-Type", "text/html"]]))
        let form = try download(
            "get", bed.server.url("/form").absoluteString, "--only-anchor", "authority.pem", "--accept-type",
            "application/zip", "--bearer-fd", "3", secret: "token")
        #expect(form.status == 65 && form.errors.contains("text/html"), "\(form.errors)")
    }

    @Test("66 and 65: the file to upload is missing, or not protected; 73: another upload of it is in the list")
    func uploads() throws {
        let url = bed.server.url("/a").absoluteString
        #expect(try bed.download("upload", "missing", url).status == 66)
        try bed.sandbox.put("plain", at: "plain")
        #expect(try bed.download("upload", "plain", url).status == 65)
        #expect(try bed.sandbox.run(["write", "secret"], input: Data("hello".utf8)).status == 0)
        // Its server is not trusted: it stays in the list as one that has failed.
        #expect(try bed.download("upload", "secret", url).status == 76)
        #expect(try bed.download("upload", "secret", url, "--only-anchor", "authority.pem").status == 73)
        #expect(try bed.server.requests().isEmpty)
    }

    @Test(
        "64: usage",
        arguments: [
            ["get", "https://localhost/a", "--user", "name:password"], ["get", "https://localhost/a", "--user", ""],
            ["get", "https://localhost/a", "-H", "AUTHORIZATION: Bearer token"],
            ["get", "https://localhost/a", "-H", "Host: other"],
            ["get", "https://localhost/a", "--password-fd", "3"], ["get", "https://localhost/a", "--bearer-fd", "-1"],
            ["get", "https://localhost/a", "--identity-passcode-fd", "3"],
            ["get", "http://localhost/a", "--allow-plain-http", "--user", "u", "--password-fd", "3"],
            ["credentials", "add", "localhost"], ["credentials", "add", "http://localhost", "--bearer-fd", "3"],
            ["credentials", "add", "localhost/path", "--bearer-fd", "3"],
            ["credentials", "add", "localhost", "--bearer-fd", "3", "--realm", "r"],
            ["credentials", "add", "localhost", "--user", "u", "--method", "negotiate"],
            ["credentials", "remove", "user@localhost"], ["upload", "a"],
            ["upload", "a", "https://localhost/a", "--method", "PATCH"],
        ])
    func usage(words: [String]) throws {
        let done = try download(words, secret: "secret")
        #expect(done.status == 64, "\(done.errors)")
    }

    private func download(_ words: [String], secret: String) throws -> Finished {
        try bed.sandbox.run(["download"] + words, passcodes: Data(secret.utf8))
    }
}
