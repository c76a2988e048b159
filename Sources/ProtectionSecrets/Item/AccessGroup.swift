/// Which programs' secrets: `<app-id>.<reverse-dns>.<name>`, as `org.example.mail.org.example.accounts`.
///
/// Groups keep order between the programs of one user; they are no wall: every program with the user's uid can name every group.
/// A program's private group is its app ID alone.
public struct AccessGroup: Hashable, Sendable, CustomStringConvertible {
    /// As it is stored.
    public let description: String

    /// The longest one, in bytes.
    public static let maximumLength = 255

    /// The private group of a program.
    ///
    /// - Throws: ``SecretError/invalid(reason:)`` unless the ID is labels of letters, digits, `-` and `_`, with dots between.
    public static func `private`(of appID: String) throws(SecretError) -> AccessGroup {
        try AccessGroup(checked: appID, leastLabels: 1, "app ID")
    }

    /// A group that several programs share.
    ///
    /// - Parameter name: an app ID, a name in reverse DNS notation and a name, so at least four labels in all.
    /// - Throws: ``SecretError/invalid(reason:)``.
    public init(_ name: String) throws(SecretError) { self = try Self(checked: name, leastLabels: 4, "access group") }

    /// A private group or a shared one; nil for what is neither. Every row that is looked at comes by here, so that no error is made.
    init?(stored: String) {
        guard stored.utf8.count <= Self.maximumLength, Self.areLabels(stored) else { return nil }
        description = stored
    }

    private init(checked name: String, leastLabels: Int, _ what: String) throws(SecretError) {
        guard Self.areLabels(name) else {
            throw .invalid(
                reason: "\(what) \"\(name)\": labels of letters, digits, - and _ are needed, dots between them")
        }
        guard name.utf8.count(where: { $0 == UInt8(ascii: ".") }) >= leastLabels - 1 else {
            throw .invalid(reason: "\(what) \"\(name)\": <app-id>.<reverse-dns>.<name> is needed, four labels at least")
        }
        guard name.utf8.count <= Self.maximumLength else {
            throw .invalid(reason: "\(what): longer than \(Self.maximumLength) bytes")
        }
        description = name
    }

    /// Labels of plain characters, with one dot between each two.
    private static func areLabels(_ text: String) -> Bool {
        var isInLabel = false
        for byte in text.utf8 {
            let isDot = byte == UInt8(ascii: ".")
            guard isDot ? isInLabel : isPlain(byte) else { return false }
            isInLabel = !isDot
        }
        return isInLabel
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}

/// Where a search looks.
public enum SecretScope: Hashable, Sendable {
    /// In the private group of the store's program.
    case privateGroup
    /// In one group that programs share.
    case group(AccessGroup)
    /// In all of them, those of other programs too.
    case allGroups
}
