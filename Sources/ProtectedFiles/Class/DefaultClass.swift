import DurableFiles
import Keybags
public import ProtectionKeys
public import SystemPackage

/// Which class a file gets when it is created or replaced: the first of these that says something.
package struct DefaultClass: Hashable {
    /// The caller's argument.
    package var explicit: ProtectionClass?
    /// The class of the file that is replaced.
    package var replaced: InheritedClass?
    /// What the attribute of the directory says, or of the nearest one above that has it; nil if none counts.
    package var directory: String?
    /// The program's default.
    package var program: ProtectionClass?
    /// The user's configuration.
    package var user: ProtectionClass?
    /// The class of a new name if nothing else says anything, and of a file in the place of one that is proved to be `none`, which is never
    /// inherited. If the class of the replaced file can neither be proved nor refuted now, the class is C.
    package var fallback = ProtectionClass.completeUntilFirstUserAuthentication

    package init(
        explicit: ProtectionClass? = nil, replaced: InheritedClass? = nil, directory: String? = nil,
        program: ProtectionClass? = nil, user: ProtectionClass? = nil,
        fallback: ProtectionClass = .completeUntilFirstUserAuthentication
    ) {
        self.explicit = explicit
        self.replaced = replaced
        self.directory = directory
        self.program = program
        self.user = user
        self.fallback = fallback
    }

    /// Whether the directory, the program and the user's configuration have a say.
    package var isOpen: Bool { explicit == nil && inherited == nil }

    /// The class of the file that is replaced, if it counts whatever the other rules say.
    private var inherited: ProtectionClass? {
        guard let replaced, replaced.isAuthentic, replaced.claimed != .none else { return nil }
        return replaced.claimed
    }

    /// The class, and which of these chose it.
    package func resolve() -> ClassChoice {
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
        if let user {
            // Nobody authenticates the file either.
            guard user != .none else { return ClassChoice(.completeUntilFirstUserAuthentication, .configurationRaised) }
            return ClassChoice(user, .configuration)
        }
        // Any other class that is proved was inherited before.
        let isKnown = replaced.map { $0.isRefuted || $0.isAuthentic } ?? true
        return ClassChoice(isKnown ? fallback : .completeUntilFirstUserAuthentication, .fallback)
    }
}

extension Keybag {
    /// The default class that the directory itself has; nil if it has none. Needs no keybag.
    ///
    /// New files in it then get that of the nearest directory above that has one: ``ClassChoice/init(forNewFilesIn:fallback:)``.
    ///
    /// - Parameter directory: the directory; a link is followed.
    public static func defaultProtection(of directory: FilePath) -> ProtectionClass? {
        DirectoryDefault.named(by: directory)
    }

    /// Takes the default class from a directory. That there was none is no error. Needs no keybag.
    public static func removeDefaultProtection(of directory: FilePath) throws(DataProtectionError) {
        try DirectoryDefault.remove(from: directory)
    }

    /// The same of a directory that was found by the one above it.
    package static func removeDefaultProtection(of entry: DirectoryEntry) throws(DataProtectionError) {
        try DirectoryDefault.remove(from: entry)
    }

    /// The class of a file that is about to be created or replaced at `path`.
    package func classForNewFile(
        at path: FilePath, explicit: ProtectionClass?, replaced: InheritedClass?
    ) throws(DataProtectionError) -> ProtectionClass {
        let choice = try ClassChoice(
            forNewFileAt: path, explicit: explicit, replaced: replaced, program: programProtection,
            fallback: fallbackProtection)
        switch choice.rule {
        case .directoryRaised(let value):
            warn(.directoryDefaultRaised(choice.directory ?? path.directory, value: value))
        case .configurationRaised: warn(.configuredDefaultRaised(Locations.configuration))
        default: break
        }
        return choice.protectionClass
    }
}
