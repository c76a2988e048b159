import Foundation
import Testing

@Suite("FORMAT.md and its pages")
struct FormatPagesTests {
    private static let folder = "docs/reference/"
    private static let pages = Checkout.files(below: "docs/reference", suffix: ".md").filter {
        $0.hasPrefix(folder + "FORMAT-") && $0 != folder + "FORMAT-EXAMPLE.md"
    }

    /// The numbers of the headings of a page: `3.7`.
    private func sections(of page: String) throws -> Set<String> {
        Set(
            try Checkout.text(page).split(separator: "\n").compactMap {
                $0.firstMatch(of: #/^#+ (?<section>[0-9]+(?:\.[0-9]+)?)/#).map { String($0.output.section) }
            })
    }

    @Test("The index has every section, with the pages that it is on")
    func index() throws {
        var named: [String: Set<String>] = [:]
        for line in try Checkout.text(Self.folder + "FORMAT.md").split(separator: "\n") {
            guard let row = line.firstMatch(of: #/^\| \[[A-Z-]+\]\((?<page>[A-Z-]+\.md)\) \| (?<numbers>[^|]*)/#) else {
                continue
            }
            named[Self.folder + row.output.page] = Set(
                row.output.numbers.matches(of: #/[0-9]+(?:\.[0-9]+)?/#).map { String($0.output) })
        }
        #expect(Self.pages.count > 3)
        for page in Self.pages { #expect(try named[page] == sections(of: page), "\(page)") }
    }

    @Test("Every section that a source file cites exists")
    func citations() throws {
        let known = try Self.pages.reduce(into: Set<String>()) { try $0.formUnion(sections(of: $1)) }
        var cited = 0
        for file in ["Sources", "Tests"].flatMap({ Checkout.files(below: $0, suffix: ".swift") }) {
            for match in try Checkout.text(file).matches(of: #/FORMAT\.md §(?<section>[0-9]+(?:\.[0-9]+)?)/#) {
                cited += 1
                #expect(known.contains(String(match.output.section)), "\(file): §\(match.output.section)")
            }
        }
        #expect(cited > 100)
    }

    @Test(
        "The definitions of the databases are on their page, character by character",
        arguments: [
            "Sources/ProtectionDownloads/Store/DownloadSchema.swift",
            "Sources/ProtectionSecrets/Store/SecretSchema.swift",
        ])
    func definitions(file: String) throws {
        let page = try Checkout.text(Self.folder + "FORMAT-DATABASES.md")
        let list = try #require(
            try Checkout.text(file).components(separatedBy: "SharedSchema([\n").last?
                .components(separatedBy: "\n    ])").first)
        // The literals are indented by eight blanks, which are not part of them.
        let lines = list.components(separatedBy: "\n").map { $0.hasPrefix("        ") ? $0.dropFirst(8) : $0[...] }
        let definitions = lines.joined(separator: "\n").components(separatedBy: "\"")
            .map { $0.trimmingCharacters(in: .newlines) }.filter { $0.hasPrefix("CREATE ") }
        #expect(definitions.count == 5)
        for definition in definitions { #expect(page.contains("\n\(definition)\n"), "\(definition)") }
    }

    @Test("The page that is enough to read a file has at most 26 KB")
    func size() throws {
        #expect(try Checkout.text(Self.folder + "FORMAT-FILE.md").utf8.count <= 26_000)
    }
}
