import DurableFiles
import Glibc
import Keybags
public import ProtectionKeys
public import SystemPackage

/// The class that a new file gets, and which rule chose it.
public struct ClassChoice: Hashable, Sendable {
    /// The rules in their order: the first that says something wins.
    public enum Rule: Hashable, Sendable {
        /// The caller's argument.
        case explicit
        /// The class of the file that is replaced: proved by a key, or stronger than what the other rules say. Never `none`.
        case replacedFile
        /// The attribute of the directory, or of the nearest one above that has it.
        case directory
        /// That attribute says `none`, or nothing we know: nobody authenticates it, so that it can raise but not lower.
        case directoryRaised(value: String)
        /// The program's default.
        case program
        /// The user's configuration.
        case configuration
        /// The user's configuration says `none`, which it cannot give: nobody authenticates that file either.
        case configurationRaised
        /// Nothing says anything.
        case fallback
    }

    /// The class.
    public let protectionClass: ProtectionClass
    /// Why.
    public let rule: Rule
    /// The directory whose attribute the rule means, or is passed over; nil if there is none. The path of a directory above has no links.
    public var directory: FilePath?
    /// What the attribute of ``directory`` says, where it is passed over because that directory belongs to another user.
    public var ignoredDirectoryDefault: String?

    package init(_ protectionClass: ProtectionClass, _ rule: Rule) {
        self.protectionClass = protectionClass
        self.rule = rule
    }

    /// The class of a file that would be created, or replaced, at `path` now by a program without a default.
    ///
    /// - Parameters:
    ///   - path: the name; there may be a file, or nothing.
    ///   - keybag: checks the class of the file that would be replaced. Without it nothing can prove that class.
    ///   - fallback: the class of a new name if no rule says anything. `protectfs` takes `complete`.
    /// - Throws: `configuration`, `damaged`, `unsupported`, `system`.
    public init(
        forNewFileAt path: FilePath, keybag: Keybag? = nil,
        fallback: ProtectionClass = .completeUntilFirstUserAuthentication
    ) throws(DataProtectionError) {
        var replaced: InheritedClass?
        do throws(DataProtectionError) {
            if let keybag {
                replaced = try InheritedClass(of: LowerFile(regular: path, flags: O_RDONLY), keybag)
            } else {
                replaced = InheritedClass(
                    claimed: try ProtectedFileInfo(of: path).protectionClass, isAuthentic: false)
            }
        } catch {
            switch error {
            case .notProtected, .because(FileFailure.mangled), .system(_, _, .noSuchFileOrDirectory): break
            default: throw error
            }
        }
        try self.init(forNewFileAt: path, explicit: nil, replaced: replaced, program: nil, fallback: fallback)
    }

    /// The same for new files in `directory`, whatever their names.
    ///
    /// - Parameters:
    ///   - directory: the directory.
    ///   - fallback: the class if no rule says anything. `protectfs` takes `complete`.
    /// - Throws: `configuration`, `system`.
    public init(
        forNewFilesIn directory: FilePath, fallback: ProtectionClass = .completeUntilFirstUserAuthentication
    ) throws(DataProtectionError) {
        try self.init(
            forNewFileAt: directory.appending("new"), explicit: nil, replaced: nil, program: nil, fallback: fallback)
    }

    package init(
        forNewFileAt path: FilePath, explicit: ProtectionClass?, replaced: InheritedClass?, program: ProtectionClass?,
        fallback: ProtectionClass
    ) throws(DataProtectionError) {
        var sources = DefaultClass(explicit: explicit, replaced: replaced, program: program, fallback: fallback)
        var nearest: DirectoryDefault.Nearest?
        if sources.isOpen {
            nearest = try DirectoryDefault.nearest(to: path.directory)
            if let nearest, nearest.isOwn { sources.directory = nearest.value }
            if sources.directory == nil && program == nil {
                sources.user = try UserConfiguration.load().defaultClass
            }
        }
        self = sources.resolve()
        directory = nearest?.directory
        if let nearest, !nearest.isOwn { ignoredDirectoryDefault = nearest.value }
    }
}
