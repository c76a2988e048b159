import Foundation
import Testing

@Suite("When something is wrong: the page has every error of the library")
struct WaysOutTests {
    /// Errors whose words are elsewhere: those of the layers above, the lock state, first-unlock secrets, the system, and a bug of ours.
    private static let elsewhere: Set<String> = [
        "because", "locked", "firstUnlockSecret", "hardware", "system", "cryptography",
    ]

    /// The files with the words, each up to what follows its messages.
    private static let words = [
        ("Messages", "extension Mangling"), ("KeybagFailure+Words", "private func lockedMessage"),
        ("FileFailure+Words", "\n    }\n"), ("HardwareProblem+Words", "\n    }\n"), ("TreeFailure+Words", "\n    }\n"),
    ]

    /// What they say of each error, as source: the name of its case, and the text up to the next case.
    private func messages() throws -> [(name: String, source: String)] {
        try Self.words.flatMap { file, end -> [(name: String, source: String)] in
            let text = try Checkout.text("Sources/DataProtection/Words/\(file).swift")
            let messages = try #require(text.components(separatedBy: end).first)
            return messages.components(separatedBy: "\n        case .").dropFirst().map { text in
                (String(text.prefix { $0.isLetter }), text)
            }
        }
    }

    /// The messages in the first columns of the page, each in the pieces between its `…`.
    private func rows() throws -> [[String]] {
        let page = try Checkout.text("docs/guide/WHEN-SOMETHING-IS-WRONG.md")
        let cells = page.split(separator: "\n").filter { $0.hasPrefix("| ") }.map { $0.split(separator: "|")[0] }
        return cells.flatMap { $0.matches(of: #/`(?<message>[^`]+)`/#) }.map { match -> [String] in
            match.output.message.split(separator: "…")
                .map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " ,;")) }.filter { !$0.isEmpty }
        }.filter { !$0.isEmpty }
    }

    @Test("Each message has a row with its way out")
    func complete() throws {
        let (messages, rows) = (try messages(), try rows())
        #expect(messages.count > 50 && rows.count > 50)
        for (name, source) in messages where !Self.elsewhere.contains(name) {
            #expect(rows.contains { $0.allSatisfy { source.contains($0) } }, "no row for the message of .\(name)")
        }
    }
}
