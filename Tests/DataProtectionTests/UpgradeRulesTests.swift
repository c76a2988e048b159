import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectedTrees

/// Which file gets which class by the rules of an upgrade.
@Suite struct UpgradeRulesTests {
    private func glob(_ pattern: String, _ path: String) -> Bool? {
        Glob(Array(pattern.utf8))?.matches(path.split(separator: "/").map { Array($0.utf8) })
    }

    @Test(arguments: [
        ("a", "a"), ("a", "x/y/a"), ("*.log", "deep/er/x.log"), ("/a", "a"), ("a/b", "a/b"), ("a/*", "a/b"),
        ("a/**", "a/b"), ("a/**", "a/b/c/d"), ("a/", "a/b/c"), ("**/c", "c"), ("**/c", "a/b/c"), ("a/**/c", "a/c"),
        ("a/**/c", "a/x/y/c"), ("?", "x"), ("[a-c]x", "bx"), ("[!a-c]x", "dx"), ("[]]", "]"),
        ("[a-]", "-"), ("\\*", "*"), ("a*b*c", "aXbYbZc"), ("*", "anything"), ("**", "any/thing"),
    ])
    func matches(_ pattern: String, _ path: String) { #expect(glob(pattern, path) == true) }

    @Test(arguments: [
        ("a", "b"), ("a", "a/b"), ("/a", "x/a"), ("a/b", "x/a/b"), ("a/*", "a/b/c"), ("a/", "a"), ("*.log", "x.log/y"),
        ("?", "xy"), ("[a-c]x", "dx"), ("[!a-c]x", "bx"), ("\\*", "x"), ("a*b", "a"), ("A", "a"), ("a/**/c", "a/cc"),
    ])
    func doesNotMatch(_ pattern: String, _ path: String) { #expect(glob(pattern, path) == false) }

    @Test(arguments: ["", "/", "[", "[a", "a\\", "[z-a]"]) func makesNoSense(_ pattern: String) {
        #expect(Glob(Array(pattern.utf8)) == nil)
    }

    /// A name of somebody else's cannot hold up an upgrade.
    @Test func aNastyNameTakesNoTime() {
        let pattern = Array(repeating: "a*", count: 100).joined() + "b"
        #expect(glob(pattern, String(repeating: "a", count: 255)) == false)
        let deep = Array(repeating: "a", count: 400).joined(separator: "/")
        #expect(glob(Array(repeating: "**/a", count: 20).joined(separator: "/") + "/b", deep) == false)
    }

    @Test func namesNeedNotBeUTF8() {
        #expect(Glob([0xE9, 0x2A])?.matches([[0xE9, 0xFF]]) == true)
        #expect(Glob(Array("[!a]".utf8))?.matches([[0xFF]]) == true)
    }

    @Test func theFirstRuleCounts() throws {
        let rules = try UpgradeRules(
            """
            # comment

            mail/drafts/*  -
              mail/**   complete\r
            *.log       unless-open
            my file     none
            """)
        func verdict(_ path: String) -> UpgradeRules.Verdict? {
            rules.verdict(for: path.split(separator: "/").map { Array($0.utf8) })
        }
        #expect(verdict("mail/drafts/1") == .leave)
        #expect(verdict("mail/x.log") == .atLeast(.complete))
        #expect(verdict("x.log") == .atLeast(.completeUnlessOpen))
        #expect(verdict("d/my file") == .atLeast(.none))
        #expect(verdict("other") == nil)
        #expect(try UpgradeRules(parsing: rules.lines, at: "", isFile: false) == rules, "as a note keeps them")
    }

    /// What is made in a directory later: only what is certain of every name.
    @Test func directoriesGetTheClassOfAllThatCanBeInThem() throws {
        let rules = try UpgradeRules("a/*.log none\na/** complete\nb/* unless-open\n*.log none")
        let plan = UpgradePlan(
            protectionClass: .completeUntilFirstUserAuthentication, rules: rules, includes: [])
        func wanted(_ path: String) -> ProtectionClass? {
            plan.wantedDefault(of: path.split(separator: "/").map { Array($0.utf8) })
        }
        #expect(wanted("") == .completeUntilFirstUserAuthentication)
        #expect(wanted("a") == .complete)
        #expect(wanted("a/deep/er") == .complete)
        #expect(wanted("b") == .completeUnlessOpen)
        #expect(wanted("b/deep") == .completeUntilFirstUserAuthentication)
        let none = UpgradePlan(protectionClass: ProtectionClass.none, rules: nil, includes: [])
        #expect(none.wantedDefault(of: []) == nil, "none is no default")
    }

    @Test(arguments: [("a", 1), ("# x\n\na secret", 3), ("[ complete", 1), ("a complete\nb\0c none", 2)])
    func aLineThatMakesNoSenseIsNamed(_ text: String, _ line: Int) {
        let error = expectError("configuration") { _ = try UpgradeRules(text) }
        if case .because(KeybagFailure.configuration(_, let found, _)) = error { #expect(found == line) }
    }
}
