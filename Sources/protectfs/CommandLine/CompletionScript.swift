/// A completion script as the argument parser writes it for bash, zsh and fish.
///
/// In bash and zsh each verb is a function, `_protectfs_download_get() {` to `}`. In fish it is a case of
/// `__protectfs_parse_tokens`, and commands `complete` that quote its name.
struct CompletionScript {
    private var lines: [Substring]

    init(_ text: String) { lines = text.split(separator: "\n", omittingEmptySubsequences: false) }

    var text: String { lines.joined(separator: "\n") }

    /// Puts a verb of another script, with all verbs below it, in the place of the verb of that name here.
    mutating func take(_ verb: String, from other: CompletionScript) {
        for part in Part.allCases {
            let (ours, theirs) = (indices(of: verb, part), other.indices(of: verb, part))
            guard let place = ours.first else { continue }
            for index in ours.reversed() { lines.remove(at: index) }
            lines.insert(contentsOf: theirs.map { other.lines[$0] }, at: place)
        }
    }

    private enum Part: CaseIterable { case functions, cases, completions }

    /// Which lines are about a verb.
    private func indices(of verb: String, _ part: Part) -> [Int] {
        switch part {
        case .functions:
            blocks(
                from: { $0 == "_protectfs_\(verb)() {" || $0.hasPrefix("_protectfs_\(verb)_") && $0.hasSuffix("() {") },
                to: { $0 == "}" })
        case .cases:
            // The line behind the block ends it, and is not part of it.
            blocks(
                from: { $0 == "\(Self.indent)case '\(verb)'" }, to: { !$0.hasPrefix("\(Self.indent)    ") }
            ).dropLast(1) as [Int]
        case .completions:
            lines.indices.filter { index in
                lines[index].hasPrefix("complete ")
                    && ["\"", " "].contains { lines[index].contains("\"protectfs \(verb)\($0)") }
            }
        }
    }

    /// Where the cases of the verbs stand in fish.
    private static let indent = String(repeating: " ", count: 8)

    /// The lines of all blocks, their last ones included.
    private func blocks(from isFirst: (Substring) -> Bool, to isLast: (Substring) -> Bool) -> [Int] {
        var found: [Int] = []
        var isInside = false
        for (index, line) in lines.enumerated() {
            if isInside {
                found.append(index)
                isInside = !isLast(line)
            } else if isFirst(line) {
                found.append(index)
                isInside = true
            }
        }
        return found
    }
}
