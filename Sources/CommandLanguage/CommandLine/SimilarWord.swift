/// The word that was probably meant by one that was mistyped.
enum SimilarWord {
    /// Verbs of other programs, for what ours are called.
    private static let synonyms = [
        "encrypt": "protect", "decrypt": "unprotect", "open": "unlock", "close": "lock", "passwd": "passcode",
        "create": "init", "info": "explain", "check": "verify", "umount": "unmount",
    ]

    /// The most similar of several words: at most two characters left out, added, changed or exchanged, three in an option.
    ///
    /// - Parameters:
    ///   - word: what was typed.
    ///   - candidates: what exists.
    /// - Returns: nil if none is similar.
    static func to(_ word: String, among candidates: [String]) -> String? {
        if let synonym = synonyms[word], candidates.contains(synonym) { return synonym }
        let limit = word.hasPrefix("--") ? 3 : word.count < 4 ? 1 : 2
        let ranked = candidates.map { (word: $0, distance: distance(Array(word), Array($0))) }
        return ranked.filter { $0.distance <= limit }.min { $0.distance < $1.distance }?.word
    }

    /// Damerau-Levenshtein distance, without edits inside an exchange (optimal string alignment).
    private static func distance(_ one: [Character], _ other: [Character]) -> Int {
        if one.isEmpty || other.isEmpty { return max(one.count, other.count) }
        var rows = [Array(0...other.count)]
        for i in 1...one.count {
            var row = [i]
            for j in 1...other.count {
                let change = rows[i - 1][j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1)
                var least = min(change, rows[i - 1][j] + 1, row[j - 1] + 1)
                if i > 1, j > 1, one[i - 1] == other[j - 2], one[i - 2] == other[j - 1] {
                    least = min(least, rows[i - 2][j - 2] + 1)
                }
                row.append(least)
            }
            rows.append(row)
        }
        return rows[one.count][other.count]
    }
}
