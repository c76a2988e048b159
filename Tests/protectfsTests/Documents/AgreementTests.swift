import Foundation
import Testing

@testable import protectfs

private typealias OurStatus = protectfs.ExitStatus

@Suite("Help, manual page and program say the same")
struct AgreementTests {
    private let surface: CommandSurface
    private let page: ManualPage

    init() throws {
        surface = try .ofProgram()
        page = try ManualPage()
    }

    @Test("The manual pages have every verb, and no other")
    func verbs() {
        #expect(surface.verbs.count > 10)
        #expect(Set(page.verbs.map(\.name)).subtracting(["help"]) == Set(surface.verbs.map(\.name)))
    }

    @Test("The manual pages have every option of every verb, and no other")
    func options() throws {
        for verb in surface.verbs {
            guard let described = page.verbs.first(where: { $0.name == verb.name }) else { continue }  // see verbs()
            let foreign = described.items.reduce(described.synopsis) { $0.union($1) }.subtracting(verb.options)
            #expect(foreign.isEmpty, "\(verb.name) has no \(foreign.sorted()), but the manual page says so")
            for spelling in verb.spellings {
                #expect(
                    !described.synopsis.isDisjoint(with: spelling),
                    "the synopsis of \(verb.name) lacks \(spelling.sorted())")
                #expect(
                    (described.items + described.common).contains { $0.isSuperset(of: spelling) },
                    "the manual page does not explain \(spelling.sorted()) of \(verb.name)")
            }
        }
    }

    @Test("The manual pages introduce each verb with the words of --help")
    func introductions() {
        for verb in surface.verbs {
            guard let described = page.verbs.first(where: { $0.name == verb.name }) else { continue }  // see verbs()
            #expect(!verb.abstract.isEmpty, "\(verb.name)")
            #expect(
                Self.letters(described.introduction).hasPrefix(Self.letters(verb.abstract)),
                "\(verb.name): \(verb.abstract)")
        }
    }

    /// What is left of a text without its spaces and punctuation, which mdoc(7) sets in its own way.
    private static func letters(_ text: String) -> String { text.filter { $0.isLetter || $0.isNumber } }

    @Test("Every option and argument explains itself")
    func explained() {
        for verb in surface.verbs { #expect(verb.unexplained.isEmpty, "\(verb.name): \(verb.unexplained)") }
    }

    @Test("Help of every verb: it works, and fits 80 columns")
    func help() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        for words in [[]] + surface.verbs.map({ $0.name.split(separator: " ").map(String.init) }) {
            let asked = try sandbox.run(words + ["--help"])
            #expect(asked.status == 0, "\(words)")
            #expect(asked.text.contains("USAGE: protectfs"), "\(words)")
            let tooLong = asked.text.split(separator: "\n").map(String.init).filter { $0.count > 80 }
            #expect(tooLong.isEmpty, "\(words): \(tooLong)")
            let verb = try sandbox.run(["help"] + words)
            #expect(verb.output == asked.output, "\(words)")
        }
    }

    @Test("Every exit status is in the manual page and in help")
    func exitStatuses() throws {
        let ours = OurStatus.allCases.map(\.rawValue)
        #expect(page.exitStatuses == ours.sorted())
        let help = try CommandSandbox(makesKeybag: false).run("--help").text
        let words = Set(help.split { !$0.isNumber }.compactMap { Int32($0) })
        #expect(words.isSuperset(of: ours))
    }

    @Test("Every program that is installed has a manual page, the helpers too")
    func programs() throws {
        let manifest = try Checkout.text("Package.swift").matches(of: #/\.executable\("(?<name>protectfs[a-z-]*)"\)/#)
        let links = try Checkout.text("install").matches(of: #/\[\$root\/bin\/(?<name>[a-z-]+)\]=/#)
        let programs = manifest.map(\.output.name) + links.map(\.output.name)
        #expect(programs.count >= 7 && programs.contains("protectfs-askpass"), "\(programs)")
        for program in programs { #expect(Checkout.manualPages.contains("docs/man/\(program).1"), "\(program)") }
    }

    @Test("mandoc and groff read every manual page without complaint", arguments: Checkout.manualPages)
    func lint(name: String) throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        guard try sandbox.shell("command -v mandoc && command -v groff").status == 0 else {
            print("skipped: \(name) is not checked: mandoc or groff is not installed")
            return
        }
        let file = Checkout.root.appendingPathComponent(name).path
        // What this system has an index of, and which of our pages are installed, is not about this one.
        let ignored = "outdated mandoc.db|manual not found: Xr (git-credential-)?protectfs"
        let mandoc = try sandbox.shell(
            "mandoc -T lint \"$0\" 2>&1 | grep -Ev \"$1\"; true", [file, ignored])
        #expect(mandoc.text == "")
        let groff = try sandbox.shell("groff -mdoc -ww -Tutf8 \"$0\"", [file])
        #expect(groff.status == 0)
        #expect(groff.errors == "")
    }

    @Test("The manual pages of protectfs refer to each other by names that exist", arguments: Checkout.manualPages)
    func references(name: String) throws {
        let ours = Set(Checkout.manualPages.map { String($0.dropFirst("docs/man/".count).dropLast(2)) })
        for match in try Checkout.text(name).matches(of: #/\.Xr (?<page>\S*protectfs\S*) 1/#) {
            #expect(ours.contains(String(match.output.page)), "\(name): \(match.output.page)")
        }
    }
}
