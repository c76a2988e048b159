import Foundation
import Testing

@Suite("explain --stored")
struct InspectTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    /// The rows of a table, by their names.
    private func rows(_ text: String) -> [String: String] {
        var rows: [String: String] = [:]
        for line in text.split(separator: "\n") where line.hasPrefix("  ") {
            let parts = line.dropFirst(2).components(separatedBy: "  ")
            rows[parts[0]] = parts.dropFirst().joined(separator: " ").trimmingCharacters(in: .whitespaces)
        }
        return rows
    }

    @Test("A file, unlocked and locked")
    func file() throws {
        try sandbox.protectedFile("file", Data(repeating: 1, count: 5000))
        let done = try sandbox.run("explain", "--stored", "file")
        #expect(done.status == 0 && done.errors == "")
        #expect(done.text.hasPrefix("file: protected file\n"))
        let open = rows(done.text)
        #expect(open["class"] == "complete, class key generation 1, AES key wrap")
        #expect(open["size"] == "5000 bytes" && open["contents"] == "1 chunk")
        #expect(open["origin"] == "verified (under class key first-unlock, generation 1)")
        #expect(open["head 0"]?.hasPrefix("in force") == true && open["head 1"] == "never written")
        #expect(open["keybag"]?.contains(sandbox.keybagDirectory) == true)
        try sandbox.run("lock")
        #expect(
            rows(try sandbox.run("explain", "--stored", "file").text)["size"] == "5000 bytes (unverified while locked)")
        let other = try CommandSandbox()
        let stranger = rows(try other.run("explain", "--stored", sandbox.path("file")).text)
        #expect(stranger["keybag"]?.hasSuffix("not available to you") == true)
        #expect(stranger["size"]?.contains("unverified") == true)
        #expect(stranger["origin"]?.hasPrefix("unverified: the file claims verified") == true)
    }

    @Test("A damaged file: the readable facts and the damaged head are shown, status 65")
    func damaged() throws {
        try sandbox.protectedFile("file", Data(repeating: 1, count: 5000), "unless-open")
        var bytes = try sandbox.stored("file")
        bytes[300] ^= 1
        try bytes.write(to: URL(fileURLWithPath: sandbox.path("file")))
        let done = try sandbox.run("explain", "--stored", "file")
        #expect(done.status == 65)
        #expect(done.errors.contains("'file' is damaged or altered"))
        #expect(rows(done.text)["class"] == "unless-open, class key generation 1, X25519 and AES key wrap")
        #expect(rows(done.text)["head 0"]?.hasPrefix("damaged or torn") == true)
        let json = try #require(
            (try sandbox.run("explain", "--stored", "--json", "file").json() as? [[String: Any]])?.first)
        #expect((json["heads"] as? [[String: Any]])?.first?["condition"] as? String == "damaged")
        #expect((json["error"] as? String)?.contains("damaged") == true)
    }

    @Test("A keybag and a copy of one; nothing secret, not even wrapped")
    func keybag() throws {
        let done = try sandbox.run("explain", "--stored", "keybag", "keybag/keybag.1")
        #expect(done.status == 0, "\(done.errors)")
        let seen = rows(done.text)
        #expect(seen["passcode"] == "PBKDF2-HMAC-SHA256, 1000 iterations: few; renew it with protectfs passcode")
        #expect(seen["complete"]?.hasPrefix("generation 1, active, id ") == true)
        #expect(done.text.contains("keybag/keybag.1: copy of a keybag\n"))
        let stored = [UInt8](try sandbox.stored("keybag/keybag.0"))
        let path = Int(stored[56]) | Int(stored[57]) << 8
        let salt = stored[(64 + path + 8)..<(64 + path + 40)]
        let wrap = stored[(64 + path + 80 + 24)..<(64 + path + 80 + 64)]
        for secret in [salt, wrap] {
            let digits = secret.prefix(8).map { String(format: "%02x", $0) }.joined()
            #expect(!done.text.contains(digits))
            #expect(!(try sandbox.run("explain", "--stored", "--json", "keybag").text.contains(digits)))
        }
        try Data([1]).write(to: URL(fileURLWithPath: sandbox.path("keybag/keybag.0")))
        let bad = try sandbox.run("explain", "--stored", "keybag")
        #expect(bad.status == 65)
        #expect(rows(bad.text)["keybag.0"]?.hasPrefix("damaged") == true && rows(bad.text)["keybag.1"] == "in force")
    }

    @Test("Files that are not protected are refused, and names cannot control the terminal")
    func others() throws {
        try sandbox.put("plain", at: "plain")
        #expect(try sandbox.run("explain", "--stored", "plain").status == 65)
        #expect(try sandbox.run("explain", "--stored", "nothing").status == 66)
        #expect(try sandbox.run("explain", "--stored", "home/..").status == 66, "no keybag")
        try sandbox.protectedFile("a\u{1B}[31mb")
        let seen = try PseudoTerminal.run(["explain", "--stored", "a\u{1B}[31mb"], in: sandbox, [])
        #expect(seen.shown.contains("$'a\\x1b[31mb'"))
    }
}

@Suite("explain")
struct ExplainTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func explain(_ path: String) throws -> [String: Any] {
        let done = try sandbox.run("explain", "--json", path)
        #expect(done.status == 0, "\(done.errors)")
        return try #require((try done.json() as? [[String: Any]])?.first)
    }

    private func possible(_ entry: [String: Any]) -> [String: Bool] {
        let actions = entry["actions"] as? [[String: Any]] ?? []
        return Dictionary(
            uniqueKeysWithValues: actions.map { ($0["action"] as? String ?? "", $0["possible"] as? Bool ?? false) })
    }

    @Test(
        "Each answer about a file matches the result of the operation",
        arguments: ["complete", "unless-open", "first-unlock", "none"])
    func isTrue(className: String) throws {
        let (deviceKey, away) = (sandbox.path("state/protectfs/device-key"), sandbox.path("away"))
        for state in [
            "unlocked", "locked", "before", "unlocked, no device key", "locked, no device key", "before, no device key",
        ] {
            try sandbox.unlock()
            try sandbox.protectedFile("file", Data("text".utf8), className)
            if state.hasPrefix("locked") { try sandbox.run("lock") }
            if state.hasPrefix("before") { sandbox.evictKeys(of: sandbox.keybagDirectory) }
            if state.hasSuffix("key") { try FileManager.default.moveItem(atPath: deviceKey, toPath: away) }
            let said = possible(try explain("file"))
            #expect(said["read"] == (try sandbox.run("cat", "file").status == 0), "\(state)")
            #expect(
                said["write"] == (try sandbox.run("write", "--append", "file", input: Data("x".utf8)).status == 0),
                "\(state)")
            _ = try sandbox.shell("cp file copy")
            #expect(
                said["replace"] == (try sandbox.run("write", "file", input: Data("y".utf8)).status == 0), "\(state)")
            let others = ["complete", "unless-open", "first-unlock", "none"].filter { $0 != className }
            let changed = try others.contains { other in
                let isDone = try sandbox.run("class", "--allow-weaker", "copy", other).status == 0
                return isDone
            }
            #expect(said["change class"] == changed, "\(state)")
            try FileManager.default.removeItem(atPath: sandbox.path("file"))
            if state.hasSuffix("key") { try FileManager.default.moveItem(atPath: away, toPath: deviceKey) }
        }
    }

    @Test("The step that would help and the stronger classes that would still do are shown")
    func helpAndStronger() throws {
        try sandbox.protectedFile("log", Data("text".utf8), "first-unlock")
        try sandbox.run("lock")
        let open = try explain("log")
        #expect(open["wouldHelp"] is NSNull)
        let stronger = try #require(open["stronger"] as? [[String: Any]])
        #expect(stronger.map { $0["class"] as? String } == ["unless-open", "complete"])
        #expect(stronger[0]["whileLocked"] as? [String] == ["create", "useHandle"])
        #expect(stronger[1]["whileLocked"] as? [String] == [])
        try sandbox.unlock()
        try sandbox.protectedFile("secret")
        try sandbox.run("lock")
        #expect(try explain("secret")["wouldHelp"] as? String == "protectfs unlock")
        _ = try sandbox.shell("mv keybag moved")
        #expect(
            try sandbox.run("explain", "--keybag", "moved", "secret").text.contains("protectfs unlock --keybag 'moved'")
        )
        _ = try sandbox.shell("mv moved keybag")
        let text = try sandbox.run("explain", "secret").text
        #expect(text.contains("the key of class complete is there only while unlocked"))
    }

    @Test("The rule that chooses the class of a new file is named")
    func rules() throws {
        #expect(try explain("new")["rule"] as? String == "fallback")
        try sandbox.put("default-class = unless-open\n", at: "config/protectfs/config")
        #expect(try explain("new")["rule"] as? String == "configuration")
        try sandbox.put("x", at: "tree/plain")
        try sandbox.run("class", "tree", "complete")
        var entry = try explain("tree/new")
        #expect(entry["rule"] as? String == "directory" && entry["class"] as? String == "complete")
        entry = try explain("tree")
        #expect(entry["kind"] as? String == "directory" && entry["default"] as? String == "complete")
        #expect(try sandbox.shell("setfattr -n user.protectfs.class -v none tree").status == 0)
        entry = try explain("tree/new")
        #expect(entry["rule"] as? String == "directoryRaised" && entry["class"] as? String == "first-unlock")
        try sandbox.run("class", "tree", "complete")
        try sandbox.run("lock")
        entry = try explain("tree/new")
        #expect(possible(entry) == ["create": false] && entry["wouldHelp"] as? String == "protectfs unlock")
        #expect(try sandbox.run("write", "tree/new", input: Data("x".utf8)).status == 75, "as it was said")
        #expect(possible(try explain("new")) == ["create": true, "read back": false], "unless-open, while locked")
        #expect(possible(try explain("nowhere/new"))["create"] == false)
    }

    @Test("A directory inherits its default class from above, but not through the root of a mount")
    func inheritedDefault() throws {
        try sandbox.put("x", at: "tree/inner/deeper/plain")
        try sandbox.put("x", at: "other/plain")
        try sandbox.run("class", "tree", "complete")
        let entry = try explain("tree/inner/deeper/new")
        #expect(entry["rule"] as? String == "directory" && entry["class"] as? String == "complete")
        let text = try sandbox.run("explain", "tree/inner").text
        #expect(text.contains("directory without a default class of its own"), "\(text)")
        let tree = try sandbox.shell("cd tree && pwd -P").text.dropLast()
        #expect(text.contains("it is the default of the directory '\(tree)'"), "\(text)")
        #expect(text.contains("in directories below it that have no default class of their own"))
        guard try sandbox.shell("unshare --mount true").status == 0 else {
            return print("InspectTests.inheritedDefault: no mount namespace of our own (unshare --mount)")
        }
        let script = """
            mount --bind other tree/inner/deeper && "$PROTECTFS" explain --json tree/inner/deeper/new
            """
        let done = try sandbox.shell("exec unshare --mount sh -c \"$0\"", [script])
        let mounted = try #require((try done.json() as? [[String: Any]])?.first, "\(done.errors)")
        #expect(mounted["rule"] as? String == "fallback")
    }

    @Test(
        "Operations that file permissions refuse are reported, for an ordinary user",
        .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
    func permissions() throws {
        let user = try EndToEndUser.made()
        try user.unlock()
        let path = user.home.appending("file")
        try user.write(path, "none", [1, 2, 3])
        func actions() throws -> [String: Bool] {
            let done = try user.run(["protectfs", "explain", "--json", path.string])
            let entries = try JSONSerialization.jsonObject(with: Data(done.output)) as? [[String: Any]]
            return possible(try #require(entries?.first))
        }
        chmod(path.string, 0o400)
        #expect(try actions() == ["read": true, "write": false, "change class": false, "replace": true])
        chmod(user.home.string, 0o500)
        #expect(try actions()["replace"] == false)
        chmod(user.home.string, 0o700)
        chmod(path.string, 0)
        let done = try user.run(["protectfs", "explain", path.string])
        #expect(done.status == 0 && done.text.contains("does not let you read it"), "\(done)")
    }

    @Test("Plaintext, links, other keybags, and no keybag at all")
    func others() throws {
        try sandbox.put("x", at: "plain")
        let plain = try explain("plain")
        #expect(plain["kind"] as? String == "plaintext" && plain["wouldHelp"] as? String == "protectfs protect 'plain'")
        try sandbox.put("x", at: "home/.ssh/id")
        #expect(possible(try explain("home/.ssh/id")) == ["protect": false])
        link(sandbox.path("plain"), sandbox.path("second"))
        #expect(try possible(explain("plain")) == ["protect": false])
        #expect(try sandbox.run("protect", "plain").status == 77, "as it was said")
        mkfifo(sandbox.path("pipe"), 0o600)
        #expect(try explain("pipe")["kind"] as? String == "other")
        let other = try CommandSandbox()
        try other.protectedFile("foreign", Data("x".utf8), "none")
        let foreign = try explain(other.path("foreign"))
        #expect(possible(foreign) == ["read": false, "write": false, "change class": false])
        #expect((foreign["wouldHelp"] as? String)?.contains("--keybag") == true)
        try sandbox.protectedFile("file")
        for copy in ["0", "1"] { try sandbox.put("nothing", at: "keybag/keybag.\(copy)") }
        #expect(try (explain("file")["wouldHelp"] as? String)?.contains("recovery restore") == true)
        let nobody = try CommandSandbox(makesKeybag: false)
        let done = try nobody.run("explain", "new")
        #expect(done.status == 0 && done.text.contains("there is no keybag") && done.text.contains("protectfs init"))
    }
}
