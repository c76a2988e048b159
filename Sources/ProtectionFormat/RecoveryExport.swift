import ProtectionKeys

/// A keybag as text, for safe keeping: on a stick, in a mail, on paper. FORMAT.md §2.9.
///
///     any text
///     -----BEGIN PROTECTFS KEYBAG-----
///     version: 1
///     keybag: UUID
///     made: 2026-11-20T18:00:00Z
///
///     base64 of one keybag copy, 64 characters a line
///
///     SHA-256: of all lines from `version` to the last of base64 and the empty one behind it
///     -----END PROTECTFS KEYBAG-----
///     any text
public struct RecoveryExport: Hashable, Sendable {
    /// One keybag copy as it is stored (FORMAT.md §2.1).
    public let copy: [UInt8]
    /// Which keybag it is.
    public let keybag: KeybagUUID
    /// When the export was made, in UTC: 20 characters as `2026-11-20T18:00:00Z`. A hint.
    public let made: String

    /// What a reader takes at most, in bytes, the text around the export included.
    public static let maximumLength = 262_144
    static let begin = "-----BEGIN PROTECTFS KEYBAG-----"
    private static let end = "-----END PROTECTFS KEYBAG-----"

    /// An export to be written.
    ///
    /// - Throws: `damaged`, `unsupported` if `copy` is no keybag copy.
    public init(of copy: [UInt8], made: String) throws(FormatError) {
        keybag = try KeybagCopy(decoding: copy).uuid
        self.copy = copy
        self.made = made
    }

    /// The stored form, explanation included: ASCII, lines of 72 characters at most.
    public func encoded() throws(KeyError) -> [UInt8] { Array((explanation + (try block())).utf8) }

    /// Reads an export; the text before it, which mail adds, and behind it is skipped. Lines may end in CR LF.
    ///
    /// - Throws: `notOurs` if there is none in `text`, `damaged(.recoveryExport)` if any byte of it is another one,
    ///   `unsupported` for another version.
    public init(decoding text: [UInt8]) throws(FormatError) {
        guard text.count <= Self.maximumLength else { throw Self.damaged("the file is too long") }
        var lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { line in
            String(decoding: line.last == UInt8(ascii: "\r") ? line.dropLast() : line, as: UTF8.self)
        }
        // By bytes: text compares equal to what only looks like it.
        func index(of mark: String) -> Int? { lines.firstIndex { $0.utf8.elementsEqual(mark.utf8) } }
        guard let start = index(of: Self.begin) else { throw .notOurs }
        lines.removeFirst(start)
        guard let last = index(of: Self.end) else { throw Self.damaged("its end is missing") }
        lines.removeLast(lines.count - last - 1)
        try self.init(lines: lines)
    }

    /// - Parameter lines: from the first to the last of the export.
    private init(lines: [String]) throws(FormatError) {
        guard lines.count > 7 else { throw Self.damaged("lines are missing") }
        guard let version = lines[1].value(of: "version") else { throw Self.damaged("it does not say its version") }
        guard let digest = try? Self.digest(of: lines[1..<lines.count - 2]) else { throw Self.damaged("check") }
        guard lines[lines.count - 2] == digest else { throw Self.damaged("the SHA-256 check is wrong") }
        guard version == "1" else { throw .unsupported(what: "recovery export version \(version)") }
        guard let made = lines[3].value(of: "made"), made.utf8.count == 20,
            let copy = Base64.decode(lines[5..<lines.count - 3].joined())
        else { throw Self.damaged("a field is missing") }
        try self.init(of: copy, made: made)
        // Byte for byte: one copy and one time have one export.
        let same = try? block().utf8.elementsEqual((lines.joined(separator: "\n") + "\n").utf8)
        guard same == true else { throw Self.damaged("it is not written as the format says") }
    }

    private static func damaged(_ reason: String) -> FormatError { .damaged(.recoveryExport, reason: reason) }

    private func block() throws(KeyError) -> String {
        let text = Array(Base64.encode(copy))
        var lines = ["version: 1", "keybag: \(keybag)", "made: \(made)", ""]
        lines += stride(from: 0, to: text.count, by: 64).map { String(text[$0..<min($0 + 64, text.count)]) } + [""]
        lines = [Self.begin] + lines + [try Self.digest(of: lines[...]), Self.end]
        return lines.joined(separator: "\n") + "\n"
    }

    private static func digest(of lines: ArraySlice<String>) throws(KeyError) -> String {
        let digest = try Digest.sha256(Array((lines.joined(separator: "\n") + "\n").utf8))
        return "SHA-256: " + Hexadecimal.text(digest)
    }

    private var explanation: String {
        """
        This is an export of a protectfs keybag, for the day when the keybag
        itself is damaged or lost.

        It opens nothing by itself: only together with the recovery code of the
        day it was made, or with the passcode of that day and the device key of
        its machine.

        To put it back, on the same machine or on another one:

            protectfs recovery restore THIS-FILE
            protectfs passcode --with-recovery-code

        The second command is not needed where passcode and device key are
        still there. Keep all lines below as they are.


        """
    }
}

extension String {
    /// What stands behind `name: `.
    fileprivate func value(of name: String) -> String? {
        hasPrefix(name + ": ") ? String(dropFirst(name.count + 2)) : nil
    }
}
