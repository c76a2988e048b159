import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionKeys
public import SystemPackage

/// Which class the files of a directory are to have: lines `GLOB CLASS`, of which the first that matches counts.
///
///     # mail as strict as can be; logs must go on while locked; what others made stays
///     mail/**      complete
///     *.log        unless-open
///     vendor/      -
///
/// A glob is compared with the path below the directory, byte by byte: `*` and `?` within a name, `[a-z]`, `[!a-z]`,
/// `**` for any number of directories, `\` before a byte that is meant as it is. One without `/` is that of a name at any depth.
/// The class `-` leaves a file as it is. Lines that begin with `#` are comments.
///
/// Rules are never read from the directory that they are for: a user who may write there must not decide what is protected.
public struct UpgradeRules: Hashable, Sendable {
    /// What is to come of a file.
    package enum Verdict: Hashable, Sendable {
        case atLeast(ProtectionClass)
        /// It stays as it is.
        case leave
    }

    private struct Rule: Hashable, Sendable {
        let glob: Glob
        let verdict: Verdict
    }

    private let rules: [Rule]
    /// The lines as they are noted in the queue: without comments, each ended by 0A.
    package let lines: [UInt8]
    /// Where they were read; nil: nowhere.
    package private(set) var source: FilePath?

    /// Reads rules from a file of at most 1 MiB.
    ///
    /// - Throws: `configuration` with the line that makes no sense, `system`.
    public init(contentsOf path: FilePath) throws(DataProtectionError) {
        let bytes = try LowerFile(regular: path, flags: O_RDONLY).bytes(at: 0, count: 1 << 20)
        try self.init(parsing: bytes, at: path, isFile: true)
    }

    /// Takes rules from a program's own text.
    ///
    /// - Throws: `configuration` with the line that makes no sense; its path is empty.
    public init(_ text: String) throws(DataProtectionError) {
        try self.init(parsing: Array(text.utf8), at: "", isFile: false)
    }

    package init(parsing bytes: [UInt8], at path: FilePath, isFile: Bool) throws(DataProtectionError) {
        var rules: [Rule] = []
        var lines: [UInt8] = []
        for (index, line) in bytes.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
            let line = line.trimmed
            if line.isEmpty || line.first == UInt8(ascii: "#") { continue }
            guard let space = line.lastIndex(where: \.isSpace), !line.contains(0) else {
                throw .because(KeybagFailure.configuration(path, line: index + 1, reason: "expected GLOB CLASS"))
            }
            let name = String(decoding: line[space...].dropFirst(), as: UTF8.self)
            let pattern = line[..<space].trimmed
            guard let verdict = Verdict(name) else {
                throw .because(KeybagFailure.configuration(path, line: index + 1, reason: "there is no class \(name)"))
            }
            guard let glob = Glob(pattern) else {
                throw .because(
                    KeybagFailure.configuration(path, line: index + 1, reason: "nothing can match that glob"))
            }
            rules.append(Rule(glob: glob, verdict: verdict))
            for part in [Array(pattern), [UInt8(ascii: " ")], Array(name.utf8), [0x0A]] { lines += part }
        }
        (self.rules, self.lines) = (rules, lines)
        source = isFile ? path : nil
    }

    /// The same lines, read nowhere: equal to what a note in the queue holds.
    package var withoutSource: UpgradeRules {
        var rules = self
        rules.source = nil
        return rules
    }

    /// What the first rule says that matches a file of these names, from the directory on; nil if there is none.
    package func verdict(for path: [[UInt8]]) -> Verdict? { rules.first { $0.glob.matches(path) }?.verdict }

    /// The class of what will be made in a directory, as far as it can be said of every name.
    package func verdict(forAllIn directory: [[UInt8]]) -> Verdict? {
        rules.first { $0.glob.matchesAll(in: directory) }?.verdict
    }
}

extension UpgradeRules.Verdict {
    fileprivate init?(_ name: String) {
        if name == "-" {
            self = .leave
        } else if let named = ProtectionClass(name: name) {
            self = .atLeast(named)
        } else {
            return nil
        }
    }
}

extension UInt8 {
    fileprivate var isSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0D }
}

extension ArraySlice<UInt8> {
    /// Without blanks around it; one behind `\` belongs to the pattern.
    fileprivate var trimmed: ArraySlice<UInt8> {
        var slice = drop(while: \.isSpace)
        while let last = slice.last, last.isSpace, slice.dropLast().last != UInt8(ascii: "\\") { slice.removeLast() }
        return slice
    }
}
