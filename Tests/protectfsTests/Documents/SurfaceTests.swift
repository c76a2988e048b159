import Foundation
import Testing

@Suite("Contents of help, old names, and mistyped words")
struct SurfaceTests {
    private let sandbox: CommandSandbox

    init() throws { sandbox = try CommandSandbox(makesKeybag: false) }

    /// The verbs in help, by their groups.
    private func groups(_ help: String) -> [(name: String, verbs: [String])] {
        var groups: [(name: String, verbs: [String])] = []
        for line in help.split(separator: "\n") {
            if line.hasSuffix(":"), line.first != " ", line == line.uppercased() {
                groups.append((String(line.dropLast()), []))
            } else if let found = line.firstMatch(of: #/^ {2}(?<verb>[a-z-]+)( |$)/#), !groups.isEmpty {
                groups[groups.count - 1].verbs.append(String(found.output.verb))
            }
        }
        return groups.filter { $0.name != "OPTIONS" }
    }

    private static let names = [
        "EVERY DAY", "FILES AND TREES", "KEYBAG AND RECOVERY", "SECRETS AND DOWNLOADS", "DIAGNOSIS", "FOR PROGRAMS",
    ]

    @Test("--help shows at most 22 verbs in six groups; help --all shows every verb")
    func firstScreen() throws {
        let first = groups(try sandbox.run("--help").text)
        let all = groups(try sandbox.run("help", "--all").text)
        #expect(first.map(\.name) == Self.names && all.map(\.name) == Self.names)
        let shown = first.flatMap(\.verbs)
        #expect((15...22).contains(shown.count) && Set(shown).count == shown.count)
        let known = Set(try CommandSurface.ofProgram().verbs.map { String($0.name.split(separator: " ")[0]) })
        #expect(Set(all.flatMap(\.verbs)) == known)
        #expect(all.flatMap(\.verbs).count == known.count)
        for (few, many) in zip(first, all) { #expect(Set(few.verbs).isSubset(of: many.verbs), "\(few.name)") }
        #expect(try sandbox.run("--help").text.contains("protectfs help --all"))
    }

    @Test("The verbs of other programs have the words in help that those programs have")
    func abstracts() throws {
        let help = try sandbox.run("help", "--all").text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        for verb in ["secret", "download", "conformance"] {
            let own = try sandbox.run(verb, "--help").text
            let abstract = own.dropFirst("OVERVIEW: ".count).split(separator: "\n\n")[0]
                .split(whereSeparator: \.isWhitespace).joined(separator: " ")
            #expect(help.contains("\(verb) \(abstract)"), "\(verb)")
        }
    }

    @Test("Verbs that only other verbs need are not shown, and still work")
    func hidden() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.protectedFile("file")
        #expect(try sandbox.run("repair", "file").status == 0)
        #expect(try sandbox.run("secret", "rewrap").status == 0)
        #expect(try sandbox.run("upgrade", "--queued").status == 0)
        for words in [["help", "--all"], ["secret", "--help"], ["upgrade", "--help"]] {
            let help = try sandbox.run(words).text
            for word in ["repair", "rewrap", "copy-to-backup", "--queued"] { #expect(!help.contains(word), "\(words)") }
        }
    }

    @Test(
        "An old name works, and a warning has the new one",
        arguments: [
            (["inspect", "file"], ["explain", "--stored", "file"], "explain --stored"),
            (["inspect", "--json", "file"], ["explain", "--stored", "--json", "file"], "explain --stored"),
            (["inspect", "missing"], ["explain", "--stored", "missing"], "explain --stored"),
            (
                ["export", "--format", "rncryptor", "file", "-o", "-", "--key-fd", "3"],
                ["rncryptor", "seal", "file", "-o", "-", "--key-fd", "3"], "rncryptor seal"
            ),
            (["import", "file", "-o", "x"], ["rncryptor", "open", "file", "-o", "x"], "rncryptor open"),
            (["help", "import"], ["help", "rncryptor", "open"], "rncryptor open"),
            (["inspect", "--help"], ["explain", "--help"], "explain --stored"),
        ])
    func oldNames(old: [String], new: [String], says: String) throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.protectedFile("file")
        let keys = Data(repeating: 7, count: 64)
        let (asked, done) = (try sandbox.run(old, passcodes: keys), try sandbox.run(new, passcodes: keys))
        #expect(asked.status == done.status)
        // A sealed message is never the same twice.
        #expect(asked.output.count == done.output.count && (old[0] == "export" || asked.output == done.output))
        let name = old[0] == "help" ? old[1] : old[0]
        let warning =
            "protectfs: warning: '\(name)' is an old name, which the next release removes; use: protectfs \(says)\n"
        #expect(asked.errors == warning + done.errors)
    }

    @Test(
        "A mistyped verb or option is named, with the one that was probably meant",
        arguments: [
            (["recovery", "exprot"], "there is no verb 'recovery exprot'", "protectfs recovery export"),
            (["secret", "finde"], "there is no verb 'secret finde'", "protectfs secret find"),
            (["download", "trust", "ad", "x"], "there is no verb 'download trust ad'", "protectfs download trust add"),
            (["queue", "lst"], "there is no verb 'queue lst'", "protectfs queue list"),
            (["agent", "instal"], "there is no verb 'agent instal'", "protectfs agent install"),
            (["secret", "lst"], "there is no verb 'secret lst'", "protectfs secret list"),
            (
                ["download", "credentials", "ad"], "there is no verb 'download credentials ad'",
                "protectfs download credentials add"
            ),
            (["help", "unlok"], "there is no verb 'unlok'", "protectfs unlock"),
            (["downlaod", "get", "https://localhost/a"], "there is no verb 'downlaod'", "protectfs download"),
            (
                ["protect", "--recursiv", "x"], "unknown option '--recursiv'",
                "--recursive; see protectfs protect --help"
            ),
            (["lock", "--al"], "unknown option '--al'", "--all; see protectfs lock --help"),
            (["--versoin"], "unknown option '--versoin'", "--version; see protectfs --help"),
            // Without a file the parser complains of that first.
            (["cat", "--rnage"], "unknown option '--rnage'", "--range; see protectfs cat --help"),
            // So does the verb itself.
            (["upgrade", "--dryrun"], "unknown option '--dryrun'", "--dry-run; see protectfs upgrade --help"),
            // Options of `download get` are no URLs.
            (
                ["download", "get", "--sha-256", "x"], "unknown option '--sha-256'",
                "--sha256; see protectfs download get"
            ),
            (
                ["download", "get", "--outptu=x"], "unknown option '--outptu'",
                "--output; see protectfs download get --help"
            ),
            (["download", "get", "--retry", "3", "https://localhost/a"], "unknown option '--retry'", "--retries; see"),
            // Letters of which one is that of help.
            (["download", "get", "-sha256", "x", "https://localhost/a"], "unknown option '-sha256'", "--sha256; see"),
        ])
    func mistyped(words: [String], says: String, meant: String) throws {
        let done = try sandbox.run(words)
        #expect(done.status == 64 && done.text == "", "\(done.text)")
        #expect(
            done.errors.hasPrefix("protectfs: error: \(says)\nprotectfs: hint: did you mean: \(meant)"),
            "\(done.errors)")
    }

    @Test("An unknown option that resembles none is named; letters of options may stand together")
    func unknown() throws {
        let done = try sandbox.run("download", "get", "--insecure")
        #expect(done.status == 64)
        #expect(
            done.errors == """
                protectfs: error: unknown option '--insecure'
                protectfs: hint: protectfs download get --help

                """)
        #expect(try sandbox.run("help", "help").status == 0)
        #expect(try sandbox.run("protect", "-rh").text == sandbox.run("protect", "--help").text)
        // A URL behind `--`, like a path, may begin with a hyphen: here it is the keybag that is missing.
        #expect(try sandbox.run("download", "get", "--", "--sha-256").status == 66)
    }

    @Test(
        "If a program beside the command is missing or does not run, the other verbs are still completed",
        arguments: ["bash", "zsh", "fish"])
    func completionAlone(shell: String) throws {
        let alone = try sandbox.shell(
            """
            mkdir bin && cp "$PROTECTFS" bin/protectfs
            bin/protectfs --generate-completion-script "$0" >alone || exit
            # A library that it needs is missing.
            printf '#!/bin/sh\\nexit 127\\n' >bin/protectfs-download
            chmod +x bin/protectfs-download
            bin/protectfs --generate-completion-script "$0" | cmp - alone && exec cat alone
            """, [shell])
        #expect(alone.status == 0)
        #expect(
            alone.errors.hasPrefix("protectfs: warning: '")
                && alone.errors.hasSuffix("completions for protectfs download\n")
                && alone.errors.split(separator: "\n").count == 1, "\(alone.errors)")
        let all = try sandbox.run("--generate-completion-script", shell).text
        for word in ["unlock", "rncryptor"] { #expect(alone.text.contains(word) && all.contains(word), "\(word)") }
        for word in ["all-groups", "only-anchor"] {
            #expect(!alone.text.contains(word) && all.contains(word), "\(word)")
        }
    }

    @Test("protectfs foo runs protectfs-foo from beside the command, with its arguments, and none from PATH")
    func dispatch() throws {
        let done = try sandbox.shell(
            """
            mkdir bin elsewhere && cp "$PROTECTFS" bin/protectfs
            printf '#!/bin/sh\\nprintf "foo %%s\\n" "$@"\\n' >bin/protectfs-foo
            printf '#!/bin/sh\\necho taken\\n' | tee elsewhere/protectfs-bar >bin/protectfs-lock
            chmod +x bin/* elsewhere/*
            export PATH="$PWD/elsewhere:$PATH"
            bin/protectfs foo --all "$(printf 'a\\377b')" 'c d'
            bin/protectfs help foo
            bin/protectfs bar; echo $?
            bin/protectfs lock --no-such-option; echo $?
            bin/protectfs ../bin/protectfs-foo; echo $?
            bin/protectfs secret list; echo $?
            """)
        #expect(
            done.output.starts(with: Data("foo --all\nfoo a".utf8) + [0xFF] + Data("b\nfoo c d\nfoo --help\n".utf8)))
        #expect(String(decoding: done.output, as: UTF8.self).hasSuffix("foo --help\n64\n64\n64\n69\n"))
        #expect(done.errors.contains("there is no verb 'bar'"), "\(done.errors)")
        #expect(done.errors.contains("/bin/protectfs-secrets': "), "\(done.errors)")
        #expect(done.errors.contains("hint: install it beside protectfs"), "\(done.errors)")
    }
}
