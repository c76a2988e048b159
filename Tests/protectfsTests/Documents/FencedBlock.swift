import Foundation

/// A fenced block of a Markdown file, with the comment right above it.
///
///     <!-- before: mkdir taxes -->       commands that are run first and not shown
///     <!-- needs: FUSE -->               the block mounts something
///     <!-- not run: it takes hours -->   why the block is not run
///     <!-- from: Examples/… -->          the file that a block of Swift is taken from
struct FencedBlock {
    let document: String
    /// Of the opening fence, from 1.
    let line: Int
    /// `console`, `swift`, or nothing.
    let language: String
    let text: String
    private let comments: [String]

    /// What the comment says after `name:`.
    func comment(_ name: String) -> String? {
        let found = comments.filter { $0.hasPrefix(name + ":") }.map { $0.dropFirst(name.count + 1) }
        return found.isEmpty ? nil : found.joined(separator: "\n").trimmingCharacters(in: .whitespaces)
    }

    /// All blocks of a document, in order.
    static func all(of document: String) throws -> [FencedBlock] {
        var blocks: [FencedBlock] = []
        var open: (line: Int, language: String, text: [String])?
        var comments: [String] = []
        for (index, line) in try Checkout.text(document).split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            if line.hasPrefix("```") {
                if let block = open {
                    blocks.append(
                        FencedBlock(
                            document: document, line: block.line, language: block.language,
                            text: block.text.joined(separator: "\n"), comments: comments))
                    (open, comments) = (nil, [])
                } else {
                    open = (index + 1, String(line.dropFirst(3)), [])
                }
            } else if open != nil {
                open?.text.append(String(line))
            } else if line.hasPrefix("<!-- "), line.hasSuffix(" -->") {
                comments.append(String(line.dropFirst(5).dropLast(4)))
            } else if !line.isEmpty {
                comments = []
            }
        }
        return blocks
    }
}
