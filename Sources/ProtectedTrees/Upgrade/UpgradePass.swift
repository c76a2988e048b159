import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionKeys
import SystemPackage

/// One upgrade of a directory: walks it, directories before what is in them, and hands the files to threads.
///
/// Every directory is opened in the one above it, and that of a file stays open while there is work on the file. So a process that renames or
/// replaces a directory cannot lead the upgrade out of the tree.
package struct UpgradePass: Sendable {
    package let keybag: Keybag
    package let plan: UpgradePlan
    package let options: UpgradeOptions
    private let root: LowerDirectory
    /// The root without links, for what must be left alone.
    package let place: FilePath
    private let names: UnprotectableNames
    /// Bytes done, for a progress display.
    package let done = ByteCounter()

    /// How many files are under way at once: each keeps its directory open.
    private static let window = 64

    /// - Throws: `system` for no directory, `rulesWithin` for rules that are kept in it.
    package init(
        _ keybag: Keybag, _ directory: FilePath, to protectionClass: ProtectionClass?, rules: UpgradeRules?,
        options: UpgradeOptions
    ) throws(DataProtectionError) {
        self.keybag = keybag
        self.options = options
        plan = UpgradePlan(
            protectionClass: protectionClass, rules: rules, includes: options.includes)
        // A mount may show the plaintext there, which must not be encrypted once more.
        let stored = try StoredPlace.of(directory)
        root = try LowerDirectory(stored)
        place = try stored.resolvedName()
        names = UnprotectableNames(keybag: keybag.directory)
        if let source = rules?.source, try source.resolvedName().starts(with: place) {
            throw .because(TreeFailure.rulesWithin(directory, rules: source))
        }
    }

    /// What the directory is, while it is open.
    package func rootStatus() throws(DataProtectionError) -> stat { try root.status() }

    /// Why nothing at all is done, if the directory itself must be left alone.
    package var refusal: String? { names.reason(against: place) }

    private var leavesOutStores: Bool { !plan.includes.contains(.versionControl) }

    /// Does it all, on this thread and others.
    ///
    /// - Parameters:
    ///   - goOn: whether to go on; false ends it with the files in hand finished, or as they were.
    ///   - whileWaiting: called several times a second.
    ///   - report: gets each result, on this thread, in the order of the names.
    package func run(
        while goOn: @escaping @Sendable () -> Bool = { true }, whileWaiting: @escaping () -> Void = {},
        reporting report: @escaping (UpgradeResult) -> Void
    ) -> UpgradeSummary {
        let run = Run(self, goOn: goOn, report)
        let work = UpgradeWork(
            keybag: keybag, root: root, plan: plan, isDryRun: options.isDryRun, done: done, goOn: run.goOn)
        let giveWay: @Sendable () -> Void = { [isBackground = options.isBackground] in
            if isBackground { _ = nice(19) }  // on Linux that of the calling thread
        }
        let workers = FileWorkers<UpgradeFile, UpgradeResult?>(
            threads: max(1, options.jobs ?? usualThreadCount), window: Self.window,
            prepare: giveWay, work: { work.perform($0) }, receive: { run.receive($1) }, whileWaiting: whileWaiting)
        if let reason = refusal {
            run.add(place, .skipped(.needed(reason)))
        } else if leavesOutStores, place.components.contains(where: LeftOut.isStore) {
            run.add(place, .skipped(.leftOut(.versionControl)))
        } else {
            walk(run, workers)
        }
        workers.finish()
        run.summary.isStopped = !run.goOn()
        if options.queuesWhatIsLocked, !options.isDryRun, !run.summary.isStopped, run.summary.queued == 0 { forget() }
        return run.summary
    }

    /// A directory whose entries are being visited.
    private struct Level {
        /// The entries that are left.
        var waiting: ArraySlice<FilePath.Component>
        /// The directory without links; nil where nothing below is left alone because of its path.
        let place: FilePath?
    }

    private func walk(_ run: Run, _ workers: FileWorkers<UpgradeFile, UpgradeResult?>) {
        var descent = Descent(root)
        // The names that lead from the root to where it has arrived.
        var above: [[UInt8]] = []
        guard let entries = begin(root, above, run) else { return }
        var levels = [Level(waiting: entries[...], place: names.areBelow(place) ? place : nil)]
        while let last = levels.indices.last, run.goOn() {
            let directory = descent.directory
            guard let name = levels[last].waiting.popFirst() else {
                levels.removeLast()
                if levels.isEmpty { return }
                above.removeLast()
                do throws(DataProtectionError) { try descent.leave() } catch {
                    // What is left above is not visited.
                    return run.add(directory.path.removingLastComponent(), .failed(error))
                }
                continue
            }
            let entry = DirectoryEntry(name, in: directory)
            do throws(DataProtectionError) {
                let place = levels[last].place
                guard let inner = try visit(entry, above, place, run, workers) else { continue }
                guard let entries = begin(inner, above + [name.bytes], run) else { continue }
                try descent.enter(name, inner)
                above.append(name.bytes)
                let below = place?.appending(name)
                levels.append(
                    Level(waiting: entries[...], place: below.flatMap { names.areBelow($0) ? $0 : nil }))
            } catch {
                run.add(entry.path, .failed(error))
            }
        }
    }

    /// Raises the default class of a directory, first, so that new files land right while the walk is on.
    ///
    /// - Returns: the names in it; nil if it is left alone, which is reported.
    private func begin(_ directory: LowerDirectory, _ names: [[UInt8]], _ run: Run) -> [FilePath.Component]? {
        let isBackup = Backup.isOne(directory)
        if isBackup || KeybagFile.isThere(in: directory) {
            let need = isBackup ? "it is a backup" : "it is a keybag"
            run.add(directory.path, .skipped(.needed(need)))
            return nil
        }
        do throws(DataProtectionError) {
            if leavesOutStores, try LeftOut.isBareRepository(directory) {
                run.add(directory.path, .skipped(.leftOut(.versionControl)))
                return nil
            }
            if !options.isDryRun { try raiseDefault(of: directory, to: plan.wantedDefault(of: names)) }
        } catch {
            run.add(directory.path, .failed(error))
        }
        do throws(DataProtectionError) { return try directory.names() } catch {
            run.add(directory.path, .failed(error))
            return nil
        }
    }

    /// Hands a file to the threads, or reports why it is left alone.
    ///
    /// - Returns: the directory, if that is what it is: it is to be visited then.
    private func visit(
        _ entry: DirectoryEntry, _ names: [[UInt8]], _ place: FilePath?, _ run: Run,
        _ workers: FileWorkers<UpgradeFile, UpgradeResult?>
    ) throws(DataProtectionError) -> LowerDirectory? {
        let parent = names.isEmpty ? self.place.lastComponent : entry.directory.path.lastComponent
        if let reason = self.names.reason(against: entry.name, in: place, named: parent) {
            run.add(entry.path, .skipped(.needed(reason)))
            return nil
        }
        guard let status = try entry.directory.status(of: entry.name) else { return nil }
        let isStore = leavesOutStores && LeftOut.isStore(entry.name)
        switch status.st_mode & S_IFMT {
        case S_IFREG where isStore, S_IFDIR where isStore: run.add(entry.path, .skipped(.leftOut(.versionControl)))
        case S_IFREG where try isLeftover(entry): break
        case S_IFREG:
            workers.add(UpgradeFile(entry: entry, names: names + [entry.name.bytes], size: Int64(status.st_size)))
        case S_IFDIR where entry.unfinishedMarks != nil: break
        case S_IFDIR:
            do throws(DataProtectionError) { return try entry.directory.directory(entry.name) } catch {
                guard error.errno == .improperLink else { throw error }  // EXDEV
                run.add(entry.path, .skipped(.otherFileSystem))
            }
        case S_IFLNK: run.add(entry.path, .skipped(.link))
        default: run.add(entry.path, .skipped(.notRegularFile))
        }
        return nil
    }

    /// Whether it is what a dead process left, and gone now, or in the hands of a living one, and goes soon.
    private func isLeftover(_ entry: DirectoryEntry) throws(DataProtectionError) -> Bool {
        guard entry.unfinishedMarks != nil else { return false }
        if options.isDryRun { return true }
        return try UnnamedFile.removeAbandoned(entry) != .foreign
    }

    /// A stronger default stays.
    private func raiseDefault(
        of directory: LowerDirectory, to wanted: ProtectionClass?
    ) throws(DataProtectionError) {
        guard let wanted else { return }
        let open = directory.descriptorPath
        if let now = DirectoryDefault.named(by: open), now >= wanted { return }
        do throws(DataProtectionError) { try DirectoryDefault.set(wanted, of: open) } catch {
            throw .system(directory.path, operation: "setxattr", error.errno)
        }
    }
}

extension UpgradePass {
    /// What is known of a pass while it is on: of the thread that runs it, but for ``goOn``.
    fileprivate final class Run {
        let goOn: @Sendable () -> Bool
        var summary = UpgradeSummary()
        private let pass: UpgradePass
        private let report: (UpgradeResult) -> Void
        private let locked: StopFlag
        /// Nil: nothing was to be queued yet.
        private var queueing: Result<Void, DataProtectionError>?

        init(
            _ pass: UpgradePass, goOn: @escaping @Sendable () -> Bool, _ report: @escaping (UpgradeResult) -> Void
        ) {
            let locked = StopFlag()
            (self.pass, self.report, self.locked) = (pass, report, locked)
            self.goOn = { !locked.isSet && goOn() }
        }

        func add(_ path: FilePath, _ outcome: UpgradeResult.Outcome) {
            receive(UpgradeResult(path: path, protectionClass: nil, size: 0, outcome: outcome))
        }

        func receive(_ result: UpgradeResult?) {
            guard var result else { return }
            if case .failed(.because(KeybagFailure.locked)) = result.outcome {
                if pass.options.stopsWhenLocked { locked.set() }
                if pass.options.queuesWhatIsLocked { result = queued(result) }
            }
            summary.add(result)
            report(result)
        }

        /// One note for all files of the directory, which lasts before the first of them is called queued.
        private func queued(_ result: UpgradeResult) -> UpgradeResult {
            if queueing == nil {
                do throws(DataProtectionError) {
                    try pass.queue()
                    queueing = .success(())
                } catch {
                    queueing = .failure(error)
                }
            }
            let outcome: UpgradeResult.Outcome =
                if case .failure(let error) = queueing { .failed(error) } else { .queued }
            return UpgradeResult(
                path: result.path, protectionClass: result.protectionClass, size: result.size, outcome: outcome)
        }
    }
}
