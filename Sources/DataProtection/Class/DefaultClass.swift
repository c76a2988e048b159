import Glibc
public import ProtectionKeys
public import SystemPackage

/// Which class a file gets when it is created or replaced: the first of these that says something.
struct DefaultClass: Hashable {
    /// The caller's argument.
    var explicit: ProtectionClass?
    /// The class of the file that is replaced.
    var replaced: InheritedClass?
    /// The directory's attribute, as it stands there; nil if there is none or the directory is not ours.
    var directory: String?
    /// The program's default.
    var program: ProtectionClass?
    /// The user's configuration.
    var user: ProtectionClass?
    /// The class of a new name if nothing else says anything. A protected file that is replaced falls back to class C.
    var fallback = ProtectionClass.completeUntilFirstUserAuthentication

    /// Whether the directory, the program and the user's configuration have a say.
    var isOpen: Bool { explicit == nil && inherited == nil }

    /// The class of the file that is replaced, if it counts whatever the other rules say.
    private var inherited: ProtectionClass? {
        guard let replaced, replaced.isAuthentic, replaced.claimed != .none else { return nil }
        return replaced.claimed
    }

    /// The class, and which of these chose it.
    func resolve() -> ClassChoice {
        if let explicit { return ClassChoice(explicit, .explicit) }
        if let inherited { return ClassChoice(inherited, .replacedFile) }
        let other = resolveForNewName()
        guard let claimed = replaced?.claimed, claimed > other.protectionClass else { return other }
        return ClassChoice(claimed, .replacedFile)
    }

    private func resolveForNewName() -> ClassChoice {
        if let directory {
            // Nobody authenticates the attribute: it can raise silently, but never lower to *none*.
            guard let named = ProtectionClass(name: directory), named != .none else {
                return ClassChoice(.completeUntilFirstUserAuthentication, .directoryRaised(value: directory))
            }
            return ClassChoice(named, .directory)
        }
        if let program { return ClassChoice(program, .program) }
        if let user { return ClassChoice(user, .configuration) }
        return ClassChoice(replaced == nil ? fallback : .completeUntilFirstUserAuthentication, .fallback)
    }
}

/// A directory's default class: the attribute `user.protectfs.class` of the directory.
enum DirectoryDefault {
    static let attribute = "user.protectfs.class"

    /// What the attribute says, and whether it counts.
    enum Attribute: Hashable {
        case own(String)
        /// The directory belongs to somebody else.
        case foreign(String)
    }

    static func attribute(of directory: FilePath) -> Attribute? {
        var status = stat()
        guard directory.withPlatformString({ stat($0, &status) }) == 0,
            let value = ExtendedAttributes.get(attribute, of: directory)
        else { return nil }
        let text = String(decoding: value, as: UTF8.self)
        return status.st_uid == geteuid() ? .own(text) : .foreign(text)
    }

    /// What the attribute says. Attributes of directories that belong to others are ignored.
    static func value(of directory: FilePath) -> String? {
        guard case .own(let value) = attribute(of: directory) else { return nil }
        return value
    }

    static func set(_ protectionClass: ProtectionClass, of directory: FilePath) throws(DataProtectionError) {
        try ExtendedAttributes.set(attribute, to: Array(protectionClass.shortName.utf8), of: directory)
    }

    /// The class that new files in `directory` get; nil if it says none. An unusable value counts as class C.
    static func named(by directory: FilePath) -> ProtectionClass? {
        value(of: directory).map { DefaultClass(directory: $0).resolve().protectionClass }
    }

    static func remove(from directory: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) { try ExtendedAttributes.remove(attribute, of: directory) } catch {
            guard error.errno == .noData || error.errno == .notSupported else { throw error }
        }
    }

    static func isDirectory(_ path: FilePath) -> Bool {
        var status = stat()
        return path.withPlatformString { stat($0, &status) } == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}

extension Keybag {
    /// The class that new files in `directory` get by its default; nil if it has none. Needs no keybag.
    public static func defaultProtection(of directory: FilePath) -> ProtectionClass? {
        DirectoryDefault.named(by: directory)
    }

    /// Takes the default class from a directory. That there was none is no error. Needs no keybag.
    public static func removeDefaultProtection(of directory: FilePath) throws(DataProtectionError) {
        try DirectoryDefault.remove(from: directory)
    }

    /// The class of a file that is about to be created or replaced at `path`.
    func classForNewFile(
        at path: FilePath, explicit: ProtectionClass?, replaced: InheritedClass?
    ) throws(DataProtectionError) -> ProtectionClass {
        let choice = try ClassChoice(
            forNewFileAt: path, explicit: explicit, replaced: replaced, program: defaultProtection,
            fallback: fallbackProtection)
        if case .directoryRaised(let value) = choice.rule {
            warn(.directoryDefaultRaised(path.directory, value: value))
        }
        return choice.protectionClass
    }
}
