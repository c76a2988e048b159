import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// One file on its way through an upgrade.
package struct UpgradeFile: Sendable {
    package let entry: DirectoryEntry
    /// Its names from the directory of the upgrade on.
    package let names: [[UInt8]]
    /// What it takes, in bytes.
    package let size: Int64
}

/// What the threads of an upgrade do with each file. Nothing here waits for another file.
package struct UpgradeWork: Sendable {
    package let keybag: Keybag
    package let root: LowerDirectory
    package let plan: UpgradePlan
    package let isDryRun: Bool
    /// Bytes done, for a progress display.
    package let done: ByteCounter
    /// Whether to go on: asked before each file and each MiB.
    package let goOn: @Sendable () -> Bool

    /// - Returns: nil if it was to stop: the file is as it was.
    package func perform(_ file: UpgradeFile) -> UpgradeResult? {
        guard goOn() else { return nil }
        var wanted: ProtectionClass?
        do throws(DataProtectionError) {
            let outcome: UpgradeResult.Outcome?
            do throws(DataProtectionError) { outcome = try perform(file, &wanted) } catch {
                if error.isGone {
                    outcome = .skipped(.gone)
                } else if case .because(FileFailure.ownData) = error {
                    outcome = .skipped(.needed("protectfs itself needs it"))
                } else {
                    throw error
                }
            }
            return outcome.map { result(file, wanted, $0) }
        } catch {
            return result(file, wanted, .failed(error))
        }
    }

    private func result(
        _ file: UpgradeFile, _ wanted: ProtectionClass?, _ outcome: UpgradeResult.Outcome
    ) -> UpgradeResult {
        UpgradeResult(path: file.entry.path, protectionClass: wanted, size: file.size, outcome: outcome)
    }

    private func perform(
        _ file: UpgradeFile, _ wanted: inout ProtectionClass?
    ) throws(DataProtectionError) -> UpgradeResult.Outcome? {
        wanted = plan.wanted(for: file.names)
        guard let wanted else { return .skipped(.rules) }
        let source = try ConversionSource(file.entry)
        // The one look at a file that is as it should be.
        let start = try source.file.bytes(at: 0, count: 2 * Head.length)
        if try Self.isOurs(start) {
            let head = try Self.head(start, of: source.file)
            if try keybag.isAtLeast(wanted, head, file.entry.path) { return .unchanged }
            return try raise(source, from: head.wrap.classKey.protectionClass, to: wanted)
        }
        let database = try DatabaseFile(file.entry, start: start.prefix(16))
        if case .part = database { return .skipped(.leftOut(.databases)) }
        if let kind = try LeftOut(source, database, start: start), !plan.includes.contains(kind) {
            return .skipped(.leftOut(kind))
        }
        return try convert(source, file, to: wanted)
    }

    private func raise(
        _ source: ConversionSource, from now: ProtectionClass, to wanted: ProtectionClass
    ) throws(DataProtectionError) -> UpgradeResult.Outcome {
        if isDryRun {
            guard AccessRule.canChange(from: now, to: wanted, in: try keybag.state()) else { return .queued }
            return .raised(from: now)
        }
        return try keybag.raise(source, to: wanted) == .raised ? .raised(from: now) : .unchanged
    }

    /// - Returns: nil if it was to stop.
    private func convert(
        _ source: ConversionSource, _ file: UpgradeFile, to wanted: ProtectionClass
    ) throws(DataProtectionError) -> UpgradeResult.Outcome? {
        if isDryRun {
            let count = Int(try source.file.status().st_nlink)
            guard count == 1 else { throw .hasHardLinks(file.entry.path, count: count) }
            try source.requireConvertible(includingDatabases: plan.includes.contains(.databases), keybag)
            return AccessRule.wraps(wanted, in: try keybag.state()) ? .converted : .queued
        }
        var conversion = Conversion(source)
        conversion.includesDatabases = plan.includes.contains(.databases)
        conversion.isInPlace = { () throws(DataProtectionError) in
            let above = file.names.dropLast().map { FilePath(bytes: $0).lastComponent! }
            return try root.leads(by: above, to: file.entry.directory)
        }
        var seen: Int64 = 0
        defer { done.add(file.size - seen) }
        let isDone = try conversion.seal(as: wanted, keybag: keybag) { bytes in
            done.add(bytes - seen)
            seen = bytes
            return goOn()
        }
        return isDone ? .converted : nil
    }

    // MARK: judging

    /// As ``ConversionSource/isProtected()``, of bytes that were read already.
    private static func isOurs(_ start: [UInt8]) throws(DataProtectionError) -> Bool {
        guard start.count >= Prefix.magic.count else { return false }
        let (first, second) = (Array(start.prefix(Head.length)), Array(start.dropFirst(Head.length).prefix(8)))
        return try withKeys { () throws(KeyError) in try Head.looksLikeOurs(start: first, second: second) }
    }

    /// The head in force. Heads that look damaged may be the sight of a commit, and are looked at again.
    private static func head(_ start: [UInt8], of file: LowerFile) throws(DataProtectionError) -> Head {
        do throws(Trouble) { return try HeadPair(start, of: file, isLocked: false).head } catch {
            return try HeadPair(lookingAt: file).head
        }
    }
}

extension DataProtectionError {
    /// Somebody has deleted the file, or its directory, meanwhile.
    fileprivate var isGone: Bool {
        guard case .system(_, _, let errno) = self else { return false }
        return errno == .noSuchFileOrDirectory
    }
}
