import Foundation
import Testing

@Suite("Documents: agreement with this program")
struct DocumentTests {
    @Test("Every terminal session that a document shows goes as it is shown", arguments: Checkout.documents)
    func sessions(document: String) throws {
        let blocks = try FencedBlock.all(of: document).filter { $0.language == "console" }
        guard !blocks.isEmpty else { return }
        let reader = try Reader()
        for block in blocks {
            if let reason = block.comment("not run") {
                print("skipped: \(document):\(block.line) is not run: \(reason)")
                continue
            }
            if block.comment("needs") == "FUSE", let whyNoMount {
                print("skipped: \(document):\(block.line) is not run: \(whyNoMount)")
                continue
            }
            try expect(block.text, reader, after: block.comment("before"), "\(document):\(block.line)")
        }
    }

    @Test("Every example of the manual page goes as it is shown")
    func examples() throws {
        let reader = try Reader()
        let preparation = "mkdir taxes && echo 'twenty-four bytes of tax' >taxes/2026.ods"
        for (index, example) in try ManualPage().examples.enumerated() {
            try expect(example, reader, after: index == 0 ? preparation : nil, "example \(index + 1)")
        }
    }

    private func expect(_ text: String, _ reader: Reader, after preparation: String?, _ place: String) throws {
        let session = DocumentedSession(text)
        try #require(!session.commands.isEmpty, "\(place) has no line that begins with $")
        let shown = try reader.type(session, after: preparation)
        try #require(shown.count == session.commands.count, "\(place): \(shown)")
        for (command, lines) in zip(session.commands, shown) {
            let expected = DocumentedSession.comparable(command.shown)
            let actual = DocumentedSession.comparable(lines)
            #expect(
                DocumentedSession.agree(expected, actual),
                "\(place): $ \(command.typed)\n\(lines.joined(separator: "\n"))")
        }
    }

    @Test("The README has at most 120 lines, and shows init before lock")
    func readme() throws {
        let lines = try Checkout.text("README.md").split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count <= 121)  // the last one is empty
        let typed = try FencedBlock.all(of: "README.md").filter { $0.language == "console" }
            .flatMap { DocumentedSession($0.text).commands.map(\.typed) }
        let made = try #require(typed.firstIndex { $0.hasPrefix("protectfs init") })
        let locked = try #require(typed.firstIndex { $0.hasPrefix("protectfs lock") })
        #expect(made < locked)
    }

    @Test("The page about the design has at most 15 KB: it gives decisions, not an index of the sources")
    func design() throws {
        #expect(try Checkout.text("docs/design/DESIGN.md").utf8.count <= 15 * 1024)
    }

    @Test("Commands stand in blocks marked console, and nowhere else in fences", arguments: Checkout.documents)
    func fences(document: String) throws {
        for block in try FencedBlock.all(of: document) {
            let place = "\(document):\(block.line)"
            #expect(["", "console", "swift"].contains(block.language), "\(place): \(block.language)")
            if block.language == "" {
                let commands = block.text.split(separator: "\n").filter {
                    $0.hasPrefix("$ ") || $0.hasPrefix("protectfs ") || $0.hasPrefix("./") || $0.hasPrefix("swift ")
                }
                #expect(commands.isEmpty, "\(place): a command that no test runs")
            }
        }
    }

    @Test("Swift in documents is taken from a file that is compiled", arguments: Checkout.documents)
    func swift(document: String) throws {
        for block in try FencedBlock.all(of: document) where block.language == "swift" {
            let place = "\(document):\(block.line)"
            let source = try #require(block.comment("from"), "\(place): no <!-- from: FILE --> above it")
            #expect(["Examples/", "Sources/", "Tests/"].contains { source.hasPrefix($0) }, "\(place)")
            let whole = Self.unindented(source: try Checkout.text(source))
            #expect(whole.contains(Self.unindented(source: block.text)), "\(place) is not in \(source)")
        }
    }

    private static func unindented(source: String) -> String {
        source.split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.trimmingCharacters(in: .whitespaces) }.joined(separator: "\n")
    }

    @Test("Commands in running text, comments included: the verbs exist, and have the options")
    func verbs() throws {
        let verbs = try CommandSurface.ofProgram().verbs
        let others = ["Sources", "Examples"].flatMap { directory in
            [".swift", ".md", ".tutorial", ".sh"].flatMap { Checkout.files(below: directory, suffix: $0) }
        }
        for file in Checkout.documents + others {
            for match in try Checkout.text(file).matches(of: #/[`$|] ?protectfs (?<words>[a-z][^`|\n]*)/#) {
                let words = match.output.words.split(separator: " ").prefix { $0 != "--" }.map(String.init)
                let named = verbs.filter {
                    let name = $0.name.split(separator: " ").map(String.init)
                    return words.starts(with: name) || (name[0] == words[0] && words.count == 1)
                }
                #expect(!named.isEmpty || words[0] == "help", "\(file): protectfs \(match.output.words)")
                let options = Set(words.filter { $0.contains(#/^--?[a-z]/#) })
                let known = named.reduce(Set(["--help"])) { $0.union($1.options) }
                #expect(options.isSubset(of: known), "\(file): protectfs \(match.output.words)")
            }
        }
    }

    @Test("Links lead somewhere", arguments: Checkout.documents)
    func links(document: String) throws {
        let directory = URL(fileURLWithPath: "/" + document).deletingLastPathComponent()
        for match in try Checkout.text(document).matches(of: #/\]\((?<target>[^)\s]+)\)/#) {
            let target = String(match.output.target)
            if target.hasPrefix("https://") { continue }
            let parts = target.split(separator: "#", omittingEmptySubsequences: false).map(String.init)
            let path = directory.appendingPathComponent(parts[0]).standardized.path.dropFirst()
            let file = parts[0].isEmpty ? document : String(path)
            #expect(Checkout.has(file), "\(document): \(target)")
            if parts.count == 2, file.hasSuffix(".md") {
                #expect(try Self.anchors(of: file).contains(parts[1]), "\(document): \(target)")
            }
        }
    }

    @Test("Every promise of the threat model is shown by a test that exists, and the list of these tests has no other")
    func threats() throws {
        let model = try Checkout.text("docs/reference/THREAT-MODEL.md")
        var promises: Set<String> = []
        // Before the first section is the table, and what it means.
        for section in model.components(separatedBy: "\n## ").dropFirst(2) {
            let items = section.split(separator: "\n").dropFirst()
                .compactMap { $0.firstMatch(of: #/^(\d+)\. /#)?.output.1 }
            // A section that says Yes and promises nothing by number would need no test.
            #expect(section.contains("**Yes") == !items.isEmpty, "\(section.prefix(60))")
            promises.formUnion(items.map { "\(section.prefix { $0 != "." }).\($0)" })
        }
        let rows = try Checkout.text("docs/reference/FORGED-FILES.md").split(separator: "\n")
            .compactMap { $0.firstMatch(of: #/^\| (\d+) \|/#).map { "14.\($0.output.1)" } }
        var shown: Set<String> = []
        for line in try Checkout.text("Tests/Promises").split(separator: "\n") where !line.hasPrefix("#") {
            let words = line.split(separator: " ").map(String.init)
            #expect(words.count > 2, "\(line)")
            shown.insert(words[0])
            let source = try Checkout.text("Tests/" + words[1])
            for test in words.dropFirst(2) {
                #expect(source.contains("func \(test)("), "\(words[1]) has no test \(test)")
            }
        }
        #expect(promises.count > 80 && promises.isSubset(of: shown), "\(promises.subtracting(shown))")
        #expect(shown.isSubset(of: promises.union(rows)), "\(shown.subtracting(promises.union(rows)))")
    }

    /// Headings, as a forge makes anchors of them.
    private static func anchors(of file: String) throws -> Set<String> {
        Set(
            try Checkout.text(file).split(separator: "\n").filter { $0.hasPrefix("#") }.map { line in
                String(
                    line.drop { $0 == "#" }.trimmingCharacters(in: .whitespaces).lowercased()
                        .map { $0 == " " ? "-" : $0 }.filter { $0.isLetter || $0.isNumber || $0 == "-" || $0 == "_" })
            })
    }
}
