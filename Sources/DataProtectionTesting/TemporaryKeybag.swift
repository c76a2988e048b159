@_exported public import DataProtection
import DurableFiles
import Glibc
import Keybags

/// A keybag for unit tests. It needs no passcode and no kernel keyring, so tests run anywhere, in containers too.
///
/// The class keys are in the memory of this process, and the keybag and its device key in a temporary directory. Tests that run side by
/// side each make their own. Pass ``keybag`` to the code under test:
///
///     let temporary = try TemporaryKeybag()
///     let diary = Diary(in: temporary.directory, keybag: temporary.keybag)
///     try diary.write("dear diary")
///     try temporary.lock()
///     #expect(throws: Diary.Locked.self) { try diary.read() }
///     try temporary.unlock()
///     #expect(try diary.read() == "dear diary")
///
/// It differs from a user's keybag in four ways:
///
/// - Only ``keybag`` has the keys. Another process, or `Keybag(at:)` with the same directory, finds a locked keybag.
/// - No passcode opens it: `unlock(passcode:)` throws `passcodeUnusable`. Use ``unlock(for:)``.
/// - `Keybag.lockAll()` and `protectfs lock` do not reach it. Use ``lock()``, or `lock()` of ``keybag``.
/// - Nothing can open its files after ``remove()``, or after the process has ended. A process that is killed leaves the directory.
public final class TemporaryKeybag: Sendable {
    /// The keybag, for the code under test.
    public let keybag: Keybag
    /// An empty directory for the test's own files. ``remove()`` removes it with all it holds.
    public let directory: FilePath
    private let home: FilePath

    /// Makes a keybag in `$TMPDIR`, or in `/tmp`.
    ///
    /// - Parameters:
    ///   - state: the lock state it begins in.
    ///   - warn: called with each warning of the library.
    /// - Throws: `system` if the directory cannot be made or written.
    public init(
        in state: ProtectionState = .unlocked, warn: @escaping @Sendable (ProtectionWarning) -> Void = { _ in }
    ) throws(DataProtectionError) {
        let home = try Self.makeHome()
        do throws(DataProtectionError) {
            directory = home.appending("files")
            try OwnDirectory.make(directory)
            keybag = try Keybag.temporary(in: home.appending("keybag"), warn: warn)
            if state != .beforeFirstUnlock { try TemporaryKeys(of: keybag).load() }
            if state == .locked { try keybag.lock() }
        } catch {
            try? Self.removeTree(home)  // the first error says why
            throw error
        }
        self.home = home
    }

    deinit { try? remove() }

    /// Loads all class keys. Nothing is derived, so this takes well under a millisecond of computing.
    ///
    /// - Parameter time: after how long class keys A and B expire; nil: not at all.
    /// - Throws: `lockedMeanwhile`; `keybagNotFound` after ``remove()``.
    public func unlock(for time: Duration? = nil) throws(DataProtectionError) {
        try TemporaryKeys(of: keybag).load(forSeconds: time.map { UInt32(clamping: max(1, $0.wholeSeconds)) })
    }

    /// Evicts class keys A and B, as `protectfs lock` does with a user's keybag.
    public func lock() throws(DataProtectionError) { try keybag.lock() }

    /// Evicts all class keys, as a restart of the machine does. The keybag is as before the first unlock.
    public func restart() throws(DataProtectionError) { try keybag.evictEverything() }

    /// Removes the keys, the keybag, and ``directory`` with all it holds. Does nothing the second time.
    ///
    /// The end of this object does the same, but cannot report an error.
    public func remove() throws(DataProtectionError) {
        guard OwnDirectory.exists(home) else { return }
        TemporaryKeys(of: keybag).evict()
        // This process may be noting itself as a user of the keybag; it stops once that is gone.
        for _ in 0..<100 {
            do throws(DataProtectionError) { return try Self.removeTree(home) } catch {
                guard error.errno == .directoryNotEmpty else { throw error }
                usleep(1_000)
            }
        }
        try Self.removeTree(home)
    }

    private static func makeHome() throws(DataProtectionError) -> FilePath {
        let parent = FilePath(getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp")
        // The device key's path is recorded in the keybag, and has to be absolute.
        let pattern = try parent.absolute().appending("protectfs-testing-XXXXXX")
        var template = pattern.withPlatformString { Array(UnsafeBufferPointer(start: $0, count: strlen($0) + 1)) }
        guard mkdtemp(&template) != nil else { throw .system(pattern, operation: "mkdtemp", Errno(rawValue: errno)) }
        return FilePath(platformString: template)
    }

    private static func removeTree(_ path: FilePath) throws(DataProtectionError) {
        guard let name = path.lastComponent else { return }
        try LowerDirectory(path.removingLastComponent()).removeTree(name)
    }
}

/// Runs `body` with a temporary keybag and removes the keybag at the end, whatever the outcome.
///
///     try withTemporaryKeybag { temporary in
///         try Data("dear diary".utf8).write(to: diary, options: .completeFileProtection, protectedBy: temporary.keybag)
///     }
///
/// - Parameter state: the lock state it begins in.
/// - Throws: what `body` throws; else a `DataProtectionError` if the keybag cannot be made or removed.
public func withTemporaryKeybag<R>(
    in state: ProtectionState = .unlocked, _ body: (TemporaryKeybag) throws -> R
) throws -> R {
    let temporary = try TemporaryKeybag(in: state)
    let result = try body(temporary)  // if it throws, the end of the object removes the keybag
    try temporary.remove()
    return result
}

/// The same for code that waits.
///
/// - Parameters:
///   - state: the lock state it begins in.
///   - isolation: where `body` runs: where the caller does.
public func withTemporaryKeybag<R>(
    in state: ProtectionState = .unlocked, isolation: isolated (any Actor)? = #isolation,
    _ body: (TemporaryKeybag) async throws -> R
) async throws -> R {
    let temporary = try TemporaryKeybag(in: state)
    let result = try await body(temporary)
    try temporary.remove()
    return result
}
