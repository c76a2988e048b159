import Glibc

/// The arguments of this process, byte for byte: Swift's own have U+FFFD for bytes that are no UTF-8, so two names can look alike.
enum RawArguments {
    /// Before the number of an argument that stands for itself. No real argument can hold a NUL.
    private static let mark = "\0="

    /// The arguments for the parser. Each one that looks like another one with other bytes is a placeholder, which ``bytes(of:)`` knows.
    static func distinguished(_ words: [String]) -> [String] {
        guard words.contains(where: { $0.unicodeScalars.contains("\u{FFFD}") }) else { return words }
        var places: [String: [Int]] = [:]
        for index in indices { places[text(bytes(at: index)), default: []].append(index) }
        places = places.filter { Set($0.value.map(bytes(at:))).count > 1 }
        return words.map { word in
            guard let place = places[word]?.first else { return word }
            places[word]?.removeFirst()
            return "\(mark)\(place)"
        }
    }

    /// What a path on the command line has for bytes; nil if more than one argument looks like it.
    static func bytes(of argument: String) -> [CChar]? {
        if argument.hasPrefix(mark), let index = Int(argument.dropFirst(mark.count)), indices.contains(index) {
            return bytes(at: index)
        }
        var found: Set<[CChar]> = []
        for bytes in indices.map(bytes(at:)) {
            // As it stands, or behind `--option=`.
            var candidates = [bytes]
            if let equals = bytes.firstIndex(of: CChar(UInt8(ascii: "="))) {
                candidates.append(Array(bytes[(equals + 1)...]))
            }
            for candidate in candidates where text(candidate) == argument { found.insert(candidate) }
        }
        return found.count == 1 ? found.first : nil
    }

    /// Whether ``bytes(of:)`` has to be asked.
    static func isNeeded(for argument: String) -> Bool {
        argument.hasPrefix(mark) || argument.unicodeScalars.contains("\u{FFFD}")
    }

    /// A message of the parser, with what placeholders look like.
    static func readable(_ message: String) -> String {
        var text = message
        for index in indices.reversed() where text.contains(mark) {
            text = text.split(separator: "\(mark)\(index)", omittingEmptySubsequences: false)
                .joined(separator: self.text(bytes(at: index)))
        }
        return text
    }

    private static var indices: Range<Int> { 1..<max(1, Int(CommandLine.argc)) }

    private static func bytes(at index: Int) -> [CChar] {
        guard let start = CommandLine.unsafeArgv[index] else { return [] }
        return Array(UnsafeBufferPointer(start: start, count: strlen(start)))
    }

    static func text(_ bytes: [CChar]) -> String {
        String(decoding: bytes.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
