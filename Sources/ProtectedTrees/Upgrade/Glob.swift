import DurableFiles
import Keybags
import ProtectedFiles

/// A pattern for paths below a directory, compared byte by byte: names need not be UTF-8.
///
/// `*` stands for any bytes of one name, `?` for one, `[a-z]` and `[!a-z]` for one of a set, `\` makes the next byte an
/// ordinary one. A name `**` stands for any number of directories. A pattern without `/` is that of a name at any depth;
/// `/` at the beginning says only that it is not, `/` at the end means everything below.
package struct Glob: Hashable, Sendable {
    fileprivate enum Token: Hashable, Sendable {
        case byte(UInt8)
        case one
        case any
        case set([ClosedRange<UInt8>], isNegated: Bool)
    }

    /// Each name's tokens; nil is `**`.
    private let names: [[Token]?]

    /// - Returns: nil for a pattern that nothing can match: empty, a set without end, a lone `\`.
    package init?(_ pattern: some Collection<UInt8>) {
        var names: [[Token]?] = []
        for part in Self.split(Array(pattern)) {
            if part == [UInt8(ascii: "*"), UInt8(ascii: "*")] {
                names.append(nil)
            } else if !part.isEmpty {
                guard let tokens = Self.tokens(part) else { return nil }
                names.append(tokens)
            }
        }
        guard !names.isEmpty, let last = pattern.suffix(1).first else { return nil }
        if last == UInt8(ascii: "/") { names.append(nil) }
        // At the end it means what is in directories, not what is there in the place of one.
        if names.last == .some(nil) { names.append([.any]) }
        if !pattern.contains(UInt8(ascii: "/")) { names.insert(nil, at: 0) }
        self.names = names
    }

    /// Whether the pattern is that of a file with these names, from the directory on.
    package func matches(_ path: [[UInt8]]) -> Bool {
        Self.match(names, path, isMany: { $0 == nil }, Self.isOne)
    }

    /// Whether it is that of every file that could be made in the directory of these names.
    package func matchesAll(in directory: [[UInt8]]) -> Bool {
        guard names.last == [.any] else { return false }
        return matches(directory + [[0]])  // any name does: the last part matches all of them
    }

    // MARK: matching

    /// Where many things can match one, the last place where they could have been fewer is tried again: no name takes longer
    /// than its length times that of the pattern.
    private static func match<P, T>(
        _ pattern: [P], _ text: [T], isMany: (P) -> Bool, _ isOne: (P, T) -> Bool
    ) -> Bool {
        var (at, next) = (0, 0)
        var retry: (at: Int, next: Int)?
        while next < text.count {
            if at < pattern.count, isMany(pattern[at]) {
                retry = (at, next)
                at += 1
            } else if at < pattern.count, isOne(pattern[at], text[next]) {
                (at, next) = (at + 1, next + 1)
            } else if let (many, start) = retry {
                retry = (many, start + 1)
                (at, next) = (many + 1, start + 1)
            } else {
                return false
            }
        }
        return pattern[at...].allSatisfy(isMany)
    }

    private static func isOne(_ pattern: [Token]?, _ name: [UInt8]) -> Bool {
        pattern.map { match($0, name, isMany: { $0 == .any }, { $0.matches($1) }) } ?? false
    }

    // MARK: parsing

    /// At each `/` that is not escaped.
    private static func split(_ pattern: [UInt8]) -> [[UInt8]] {
        var parts: [[UInt8]] = [[]]
        var isEscaped = false
        for byte in pattern {
            if byte == UInt8(ascii: "/") && !isEscaped {
                parts.append([])
            } else {
                parts[parts.count - 1].append(byte)
            }
            isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
        }
        return parts
    }

    private static func tokens(_ part: [UInt8]) -> [Token]? {
        var tokens: [Token] = []
        var rest = part[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "*"): if tokens.last != .any { tokens.append(.any) }
            case UInt8(ascii: "?"): tokens.append(.one)
            case UInt8(ascii: "["):
                guard let set = set(&rest) else { return nil }
                tokens.append(set)
            case UInt8(ascii: "\\"):
                guard let literal = rest.popFirst() else { return nil }
                tokens.append(.byte(literal))
            default: tokens.append(.byte(byte))
            }
        }
        return tokens
    }

    private static func set(_ rest: inout ArraySlice<UInt8>) -> Token? {
        let isNegated = rest.first == UInt8(ascii: "!") || rest.first == UInt8(ascii: "^")
        if isNegated { rest.removeFirst() }
        var ranges: [ClosedRange<UInt8>] = []
        while let first = rest.popFirst() {
            if first == UInt8(ascii: "]"), !ranges.isEmpty { return .set(ranges, isNegated: isNegated) }
            var last = first
            if rest.first == UInt8(ascii: "-"), let end = rest.dropFirst().first, end != UInt8(ascii: "]") {
                last = end
                rest.removeFirst(2)
            }
            guard first <= last else { return nil }
            ranges.append(first...last)
        }
        return nil
    }
}

extension Glob.Token {
    fileprivate func matches(_ byte: UInt8) -> Bool {
        switch self {
        case .byte(let own): own == byte
        case .one: true
        case .any: false
        case .set(let ranges, let isNegated): ranges.contains { $0.contains(byte) } != isNegated
        }
    }
}
