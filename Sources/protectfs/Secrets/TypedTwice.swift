import DataProtection

/// A secret that is going to be set: typed twice the same, within three tries.
enum TypedTwice {
    /// - Parameters:
    ///   - noun: what it is, for messages.
    ///   - ask: asks a question.
    static func read(
        _ noun: String, prompt: String, _ ask: (String) throws(Failure) -> SecretBytes
    ) throws(Failure) -> SecretBytes {
        for _ in 0..<3 {
            let first = try ask(prompt)
            let second = try ask("Again: ")
            if first.isEqual(to: second) { return first }
            StandardError.line(.warning, "the two entries are not the same")
        }
        throw Failure(.usage, "the \(noun) was not typed the same twice")
    }
}
