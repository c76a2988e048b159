public import DurableFiles
public import FoundationEssentials
public import Keybags
public import ProtectedFiles
public import ProtectedTrees
public import ProtectionKeys

// The main entry points for code that has a `URL`. Everything is as with the `FilePath` of the same bytes, errors included:
// ``DataProtectionError``, also `notRegularFile` for what is no file URL. What reads like Foundation, as `Data.init(contentsOf:…)` and
// `FileManager`, throws `CocoaError` instead.

extension Keybag {
    /// Opens the keybag in a directory, as `init(at:warn:)` does with a path.
    public convenience init(
        at directory: URL, warn: @escaping @Sendable (ProtectionWarning) -> Void = { _ in }
    ) throws(DataProtectionError) {
        try self.init(at: try directory.filePath(), warn: warn)
    }

    /// Makes a new keybag, as `create(at:passcode:)` does with a path.
    @discardableResult
    public static func create(at directory: URL, passcode: borrowing SecretBytes) throws(DataProtectionError) -> Keybag
    {
        try create(at: try directory.filePath(), passcode: passcode)
    }

    /// Makes a new keybag with a recovery code, as `create(at:passcode:recoveryCode:)` does with a path.
    @discardableResult
    public static func create(
        at directory: URL, passcode: borrowing SecretBytes, recoveryCode: borrowing RecoveryCode
    ) throws(DataProtectionError) -> Keybag {
        try create(at: try directory.filePath(), passcode: passcode, recoveryCode: recoveryCode)
    }

    /// Turns a plaintext file into a protected one in place, as `protect(_:as:includingDatabases:progress:)` does with a path.
    @discardableResult
    public func protect(
        _ url: URL, as protectionClass: ProtectionClass, includingDatabases: Bool = false,
        progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) -> ConversionResult {
        try protect(
            try url.filePath(), as: protectionClass, includingDatabases: includingDatabases, progress: progress)
    }

    /// Turns a protected file into a plaintext one in place, as `unprotect(_:allowsOtherOwner:progress:)` does with a path.
    @discardableResult
    public func unprotect(
        _ url: URL, allowsOtherOwner: Bool = false, progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) -> ConversionResult {
        try unprotect(try url.filePath(), allowsOtherOwner: allowsOtherOwner, progress: progress)
    }

    /// Encrypts a file anew, as `rekey(fileAt:as:progress:)` does with a path.
    public func rekey(
        fileAt url: URL, as protectionClass: ProtectionClass, progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) {
        try rekey(fileAt: try url.filePath(), as: protectionClass, progress: progress)
    }

    /// Encrypts a file anew in the class that it has, as `rekey(fileAt:progress:)` does with a path.
    public func rekey(fileAt url: URL, progress: (Int64) -> Void = { _ in }) throws(DataProtectionError) {
        try rekey(fileAt: try url.filePath(), progress: progress)
    }

    /// Opens every chunk of a file, as `verify(_:goOn:)` does with a path.
    public func verify(
        _ url: URL, goOn: (Int64) -> Bool = { _ in true }
    ) throws(DataProtectionError) -> FileVerification? {
        try verify(try url.filePath(), goOn: goOn)
    }

    /// Brings every file below a directory to a class at least, as `upgrade(directory:to:rules:options:)` does with a path.
    public func upgrade(
        directory: URL, to protectionClass: ProtectionClass, rules: UpgradeRules? = nil,
        options: UpgradeOptions = UpgradeOptions()
    ) throws(DataProtectionError) -> Upgrade {
        try upgrade(directory: try directory.filePath(), to: protectionClass, rules: rules, options: options)
    }

    /// The same for a program that starts, as `upgradeAtLaunch(_:to:)` does with a path.
    public func upgradeAtLaunch(
        _ directory: URL, to protectionClass: ProtectionClass
    ) async throws(DataProtectionError) -> UpgradeSummary {
        try await upgradeAtLaunch(try directory.filePath(), to: protectionClass)
    }

    /// The default class that the directory itself has, as `defaultProtection(of:)` does with a path; nil also for what is no file URL.
    public static func defaultProtection(of directory: URL) -> ProtectionClass? {
        (try? directory.filePath()).flatMap { defaultProtection(of: $0) }
    }
}

extension ProtectedFile {
    /// Opens a protected file that must be there, as `open(_:_:keybag:requireVerifiedOrigin:)` does with a path.
    public static func open(
        _ url: URL, _ access: Access = .readOnly, keybag: Keybag, requireVerifiedOrigin: Bool = false
    ) throws(DataProtectionError) -> ProtectedFile {
        try open(try url.filePath(), access, keybag: keybag, requireVerifiedOrigin: requireVerifiedOrigin)
    }

    /// Opens a protected file, or creates it, as `open(_:_:create:raiseTo:keybag:requireVerifiedOrigin:)` does with a path.
    public static func open(
        _ url: URL, _ access: Access = .readOnly, create: ProtectionClass, raiseTo: ProtectionClass = .none,
        keybag: Keybag, requireVerifiedOrigin: Bool = false
    ) throws(DataProtectionError) -> ProtectedFile {
        try open(
            try url.filePath(), access, create: create, raiseTo: raiseTo, keybag: keybag,
            requireVerifiedOrigin: requireVerifiedOrigin)
    }

    /// Creates a protected file, as `create(_:as:raiseTo:keybag:)` does with a path.
    public static func create(
        _ url: URL, as protectionClass: ProtectionClass, raiseTo: ProtectionClass = .none, keybag: Keybag
    ) throws(DataProtectionError) -> ProtectedFile {
        try create(try url.filePath(), as: protectionClass, raiseTo: raiseTo, keybag: keybag)
    }

    /// Creates a protected file of the class that new files get there, as `create(_:raiseTo:keybag:)` does with a path.
    public static func create(
        _ url: URL, raiseTo: ProtectionClass = .none, keybag: Keybag
    ) throws(DataProtectionError) -> ProtectedFile {
        try create(try url.filePath(), raiseTo: raiseTo, keybag: keybag)
    }

    /// Writes a protected file from a sequence of pieces, as `write(contentsOf:to:as:keybag:replacing:)` does with a path.
    public static func write<S: AsyncSequence & Sendable>(
        contentsOf pieces: S, to url: URL, as protectionClass: ProtectionClass, keybag: Keybag, replacing: Bool = true
    ) async throws where S.Element == Data {
        try await write(
            contentsOf: pieces, to: try url.filePath(), as: protectionClass, keybag: keybag, replacing: replacing)
    }

    /// Writes a protected file from a sequence of pieces, as `write(contentsOf:to:keybag:replacing:)` does with a path.
    public static func write<S: AsyncSequence & Sendable>(
        contentsOf pieces: S, to url: URL, keybag: Keybag, replacing: Bool = true
    ) async throws where S.Element == Data {
        try await write(contentsOf: pieces, to: try url.filePath(), keybag: keybag, replacing: replacing)
    }

    /// Copies a protected file as it is stored, as `copyCiphertext(from:to:replacing:)` does with a path.
    @discardableResult
    public static func copyCiphertext(
        from source: URL, to target: URL, replacing: Bool = false
    ) throws(DataProtectionError) -> ProtectionWarning? {
        try copyCiphertext(from: try source.filePath(), to: try target.filePath(), replacing: replacing)
    }
}

extension ProtectedFileWriter {
    /// Begins a file, as `init(_:as:raiseTo:keybag:replacing:)` does with a path.
    public convenience init(
        _ url: URL, as protectionClass: ProtectionClass, raiseTo: ProtectionClass = .none, keybag: Keybag,
        replacing: Bool = true
    ) throws(DataProtectionError) {
        try self.init(
            try url.filePath(), as: protectionClass, raiseTo: raiseTo, keybag: keybag, replacing: replacing)
    }

    /// Begins a file of the class that it gets there, as `init(_:raiseTo:keybag:replacing:)` does with a path.
    public convenience init(
        _ url: URL, raiseTo: ProtectionClass = .none, keybag: Keybag, replacing: Bool = true
    ) throws(DataProtectionError) {
        try self.init(try url.filePath(), raiseTo: raiseTo, keybag: keybag, replacing: replacing)
    }
}

extension ProtectedFileInfo {
    /// Reads the heads, as `init(of:)` does with a path.
    public init(of url: URL) throws(DataProtectionError) { try self.init(of: try url.filePath()) }
}

extension SegmentedLog {
    /// Opens the log, or creates it, as `init(_:keybag:)` does with a path.
    public convenience init(_ url: URL, keybag: Keybag) throws(DataProtectionError) {
        try self.init(try url.filePath(), keybag: keybag)
    }
}
