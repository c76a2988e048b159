import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
public import ProtectionKeys
public import SystemPackage

/// New files that get a stronger class when they are closed: written as `completeUnlessOpen`, kept as `complete`.
extension PromisedClass {
    /// A promise that the queue keeps.
    package init(_ protectionClass: ProtectionClass) {
        self.init(protectionClass) { file throws(DataProtectionError) in try QueuedRaise(file, to: protectionClass) }
    }

    /// The same; nil for `none`, to which nothing needs to be raised.
    package init?(orNothing protectionClass: ProtectionClass) {
        if protectionClass == .none { return nil }
        self.init(protectionClass)
    }
}

extension ProtectedFile {
    /// Opens a protected file, or creates it.
    ///
    /// - Parameters:
    ///   - path: the file; a link is followed.
    ///   - access: what the handle is for.
    ///   - create: the class of a file that is not there yet. An existing file keeps its class.
    ///   - raiseTo: the class that a file which this call creates gets when it is closed; see ``create(_:as:raiseTo:keybag:)-(FilePath,_,_,_)``.
    ///   - keybag: the one that the file belongs to.
    ///   - requireVerifiedOrigin: refuse a file that somebody with no more than class B's public key could have made.
    /// - Throws: `locked`, `notProtected`, `damaged`, `foreignKeybag`, `system`. Nothing is left behind when a file cannot get
    ///   its key. `unverifiedOrigin` also if `access` is `readWrite` and anyone with class B's public key could have made the
    ///   `completeUnlessOpen` file: they would know its file key, and could read what is written.
    public static func open(
        _ path: FilePath, _ access: Access = .readOnly, create: ProtectionClass,
        raiseTo: ProtectionClass = .none, keybag: Keybag, requireVerifiedOrigin: Bool = false
    ) throws(DataProtectionError) -> ProtectedFile {
        try open(
            path, access, create: create, promising: PromisedClass(orNothing: raiseTo), keybag: keybag,
            requireVerifiedOrigin: requireVerifiedOrigin)
    }

    /// Opens a protected file that must be there.
    ///
    /// - Parameters:
    ///   - path: the file; a link is followed.
    ///   - access: what the handle is for.
    ///   - keybag: the one that the file belongs to.
    ///   - requireVerifiedOrigin: refuse a file that somebody with no more than class B's public key could have made.
    /// - Throws: as ``open(_:_:create:raiseTo:keybag:requireVerifiedOrigin:)-(FilePath,_,_,_,_,_)``.
    public static func open(
        _ path: FilePath, _ access: Access = .readOnly, keybag: Keybag, requireVerifiedOrigin: Bool = false
    ) throws(DataProtectionError) -> ProtectedFile {
        try open(
            path, access, create: nil, promising: nil, keybag: keybag, requireVerifiedOrigin: requireVerifiedOrigin)
    }

    /// The same for a caller that has a class or none.
    @_disfavoredOverload
    package static func open(
        _ path: FilePath, _ access: Access = .readOnly, create: ProtectionClass?, keybag: Keybag,
        requireVerifiedOrigin: Bool = false
    ) throws(DataProtectionError) -> ProtectedFile {
        try open(
            path, access, create: create, promising: nil, keybag: keybag, requireVerifiedOrigin: requireVerifiedOrigin)
    }

    /// Creates a protected file that must not be there yet.
    ///
    /// - Parameters:
    ///   - path: where nothing is yet.
    ///   - protectionClass: the class that the file has from the beginning.
    ///   - raiseTo: the class that it gets when it is closed, or at the next unlock if it is locked then: written as
    ///     `completeUnlessOpen`, kept as `complete`. That is noted before the file appears, and holds for a process that is
    ///     killed too. What somebody does by hand meanwhile counts more: no class is lowered by it, no lowering is undone.
    ///     `none`, the weakest class, raises nothing.
    ///   - keybag: whose class key the file gets.
    /// - Throws: `exists`, `locked`, `wouldWeaken` if `raiseTo` is weaker, `system`.
    public static func create(
        _ path: FilePath, as protectionClass: ProtectionClass, raiseTo: ProtectionClass = .none, keybag: Keybag
    ) throws(DataProtectionError) -> ProtectedFile {
        try create(path, as: protectionClass, promising: PromisedClass(orNothing: raiseTo), keybag: keybag)
    }

    /// Creates a protected file, which must not be there yet, of the class that new files get there: the directory's default, the
    /// program's, the user's, or `completeUntilFirstUserAuthentication`.
    ///
    /// - Parameters:
    ///   - path: where nothing is yet.
    ///   - raiseTo: as in ``create(_:as:raiseTo:keybag:)-(FilePath,_,_,_)``.
    ///   - keybag: whose class key the file gets.
    /// - Throws: as ``create(_:as:raiseTo:keybag:)-(FilePath,_,_,_)``.
    public static func create(
        _ path: FilePath, raiseTo: ProtectionClass = .none, keybag: Keybag
    ) throws(DataProtectionError) -> ProtectedFile {
        try create(path, as: nil, promising: PromisedClass(orNothing: raiseTo), keybag: keybag)
    }

    /// The same for a caller that has a class or none.
    @_disfavoredOverload
    package static func create(
        _ path: FilePath, as protectionClass: ProtectionClass?, raiseTo: ProtectionClass? = nil, keybag: Keybag
    ) throws(DataProtectionError) -> ProtectedFile {
        try create(path, as: protectionClass, promising: raiseTo.map { PromisedClass($0) }, keybag: keybag)
    }
}

extension ProtectedFileWriter {
    /// Begins a file.
    ///
    /// - Parameters:
    ///   - path: the file that appears, or is replaced, when it is finished.
    ///   - protectionClass: the class that the file has, whatever the file that is replaced has.
    ///   - keybag: whose class key the file gets.
    ///   - raiseTo: the class that the file gets when it is finished, or at the next unlock if it is locked then; see
    ///     ``ProtectedFile/create(_:as:raiseTo:keybag:)-(FilePath,_,_,_)``.
    ///   - replacing: false: a file of that name is an error when it is finished.
    /// - Throws: `wouldWeaken` if `raiseTo` is weaker than the class, `locked`, `busy` while somebody writes to the file that is replaced, `notRegularFile`, `system`.
    public convenience init(
        _ path: FilePath, as protectionClass: ProtectionClass, raiseTo: ProtectionClass = .none, keybag: Keybag,
        replacing: Bool = true
    ) throws(DataProtectionError) {
        try self.init(
            path, as: protectionClass, promising: PromisedClass(orNothing: raiseTo), keybag: keybag,
            replacing: replacing, expecting: nil)
    }

    /// Begins a file of the class that a new file gets there, or a file that is replaced keeps.
    ///
    /// That is the class of the file that is replaced, if a key proves it and it is not `none`; else the directory's default, the
    /// program's, the user's, or `completeUntilFirstUserAuthentication`. A class that is not proved counts if it is stronger than that.
    /// - Parameters:
    ///   - path: the file that appears, or is replaced, when it is finished.
    ///   - raiseTo: as in ``init(_:as:raiseTo:keybag:replacing:)-(FilePath,_,_,_,_)``.
    ///   - keybag: whose class key the file gets.
    ///   - replacing: false: a file of that name is an error when it is finished.
    /// - Throws: as ``init(_:as:raiseTo:keybag:replacing:)-(FilePath,_,_,_,_)``.
    public convenience init(
        _ path: FilePath, raiseTo: ProtectionClass = .none, keybag: Keybag, replacing: Bool = true
    ) throws(DataProtectionError) {
        try self.init(
            path, as: nil, promising: PromisedClass(orNothing: raiseTo), keybag: keybag, replacing: replacing,
            expecting: nil)
    }

    /// The same for a caller that has a class or none.
    @_disfavoredOverload
    package convenience init(
        _ path: FilePath, as protectionClass: ProtectionClass?, raiseTo: ProtectionClass? = nil, keybag: Keybag,
        replacing: Bool = true, allowsWeaker: Bool = true
    ) throws(DataProtectionError) {
        try self.init(
            path, as: protectionClass, promising: raiseTo.map { PromisedClass($0) }, keybag: keybag,
            replacing: replacing, expecting: nil, allowsWeaker: allowsWeaker)
    }
}

extension ProtectedFile {
    /// Gives a finished, closed file its name, and its class: now if unlocked, else after the next unlock. Needs no key.
    ///
    /// What another program appended to the file that is replaced is saved beside it. The new one gets its class if that is stronger.
    ///
    /// That it is to be raised is noted before it has its name: killed at any moment, the file is raised all the same.
    /// - Parameters:
    ///   - temporary: in the same directory as `path`.
    ///   - replacing: false: something under that name is the error `exists`, and nothing has happened.
    ///   - raiseTo: nil: it keeps the class that it has.
    /// - Throws: `wouldWeaken` if `raiseTo` is weaker than its class, `exists`, `system`; `busy` if somebody writes to the file that is replaced.
    package static func publish(
        _ temporary: FilePath, as path: FilePath, replacing: Bool, raiseTo: ProtectionClass?, keybag: Keybag
    ) throws(DataProtectionError) {
        let entry = try DirectoryEntry(path)
        guard let old = temporary.lastComponent, temporary.directory == path.directory else {
            throw .because(FileFailure.outOfRange(path))
        }
        let file = try LowerFile.forHeads(of: temporary, flags: O_NOFOLLOW)
        let replaced = replacing ? try ReplacedFile.hold(entry, keybag) : nil
        defer { withExtendedLifetime(replaced) {} }
        let own = try ProtectedFileInfo(path: temporary, file: file).protectionClass
        let wanted = raiseTo ?? own
        let least = replaced.flatMap { InheritedClass.least(inPlaceOf: $0.file, keybag) } ?? wanted
        let raise =
            try (least > wanted ? least : raiseTo).map { goal throws(DataProtectionError) in
                try QueuedRaise(file, named: path, to: goal, keybag: keybag)
            } ?? nil
        do throws(DataProtectionError) {
            if replacing {
                try entry.directory.rename(old, to: entry.name)
            } else {
                try entry.directory.renameIfFree(old, to: entry.name)
            }
        } catch {
            raise?.withdraw()
            throw error
        }
        try entry.directory.flush()
        raise?.perform()
    }
}
