import ArgumentParser
import DataProtection
import Glibc

/// A path of the command line, byte for byte: Swift's own arguments have U+FFFD where they are not UTF-8.
package struct PathArgument: ExpressibleByArgument {
    package let path: FilePath
    /// Whether only a directory can be meant: it ends in a slash, which a `FilePath` does not keep, or in a dot that is one.
    package let isOfDirectory: Bool

    /// What a shell offers.
    package static var defaultCompletionKind: CompletionKind { .file() }

    package init?(argument: String) {
        guard !argument.isEmpty, LongArgumentLists.expand(argument) == nil else { return nil }
        if RawArguments.isNeeded(for: argument) {
            guard let bytes = RawArguments.bytes(of: argument) else { return nil }
            path = FilePath(platformString: bytes + [0])
            isOfDirectory = Self.isOfDirectory(RawArguments.text(bytes))
        } else {
            path = FilePath(argument)
            isOfDirectory = Self.isOfDirectory(argument)
        }
    }

    private static func isOfDirectory(_ text: String) -> Bool {
        ["", ".", ".."].contains(text.split(separator: "/", omittingEmptySubsequences: false).last)
    }
}

extension PathArgument {
    /// Where the file is stored, or is to be: it may have been named in a mount. For everything but the plaintext.
    ///
    /// - Parameter followsLast: as for `StoredPlace.of`.
    /// - Throws: `mountUnanswered`.
    package func stored(followsLast: Bool = true) throws(DataProtectionError) -> FilePath {
        try StoredPlace.of(path, followsLast: followsLast)
    }
}

/// One path of a list, or a long run of them.
package struct PathsArgument: ExpressibleByArgument {
    fileprivate let paths: [FilePath]

    /// What a shell offers.
    package static var defaultCompletionKind: CompletionKind { .file() }

    package init?(argument: String) {
        var paths: [FilePath] = []
        for argument in LongArgumentLists.expand(argument) ?? [argument] {
            guard let path = PathArgument(argument: argument)?.path else { return nil }
            paths.append(path)
        }
        self.paths = paths
    }
}

extension [PathsArgument] {
    /// All of them.
    package var paths: [FilePath] { flatMap(\.paths) }

    /// Where they are stored: as ``PathArgument/stored(followsLast:)``.
    package func stored(followsLast: Bool = true) throws(DataProtectionError) -> [FilePath] {
        var stored: [FilePath] = []
        for path in paths { stored.append(try StoredPlace.of(path, followsLast: followsLast)) }
        return stored
    }
}

extension ProtectionClass: ExpressibleByArgument {
    /// complete, unless-open, first-unlock, none, and Apple's raw strings.
    public init?(argument: String) { self.init(name: argument) }

    /// What help shows.
    public var defaultValueDescription: String { shortName }

    /// What help says of each.
    public static var allValueDescriptions: [String: String] {
        [
            complete.shortName: "open only while unlocked",
            completeUnlessOpen.shortName: "created at any time, opened only while unlocked",
            completeUntilFirstUserAuthentication.shortName: "open after the first unlock since the machine started",
            none.shortName: "open at any time on this machine",
        ]
    }

    /// What help lists.
    public static var allValueStrings: [String] { allCases.map(\.shortName) }
}

/// A length of time: `90`, `90s`, `10m`, `2h`, `1d`; in whole seconds, one at least.
package struct DurationArgument: ExpressibleByArgument, Hashable {
    package let seconds: UInt32

    package init?(argument: String) {
        guard let seconds = TimeSpan.seconds(argument) else { return nil }
        self.seconds = seconds
    }
}

/// Which bytes: `A-B` both included, `A-` to the end, `-N` the last N.
package enum ByteRange: ExpressibleByArgument, Hashable {
    case from(Int64, through: Int64?)
    case last(Int64)

    package init?(argument: String) {
        let parts = argument.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.allSatisfy { $0.isASCII && $0.isNumber } }) else { return nil }
        switch (Int64(parts[0]), Int64(parts[1])) {
        case (let first?, let last?) where first <= last: self = .from(first, through: last)
        case (let first?, nil) where parts[1].isEmpty: self = .from(first, through: nil)
        case (nil, let count?) where parts[0].isEmpty: self = .last(count)
        default: return nil
        }
    }

    /// The bytes of a file of `size` bytes; none where it has none there.
    package func bytes(ofFileWithSize size: Int64) -> Range<Int64> {
        switch self {
        case .from(let first, let last):
            let end = last.map { $0 == Int64.max ? size : min($0 + 1, size) } ?? size
            return min(first, size)..<max(end, min(first, size))
        case .last(let count): return max(0, size - count)..<size
        }
    }
}
