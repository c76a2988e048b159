import ArgumentParser
import DataProtection
import Glibc

/// `--root DIR …`, and the files that it names; `--jobs N`.
struct RotationRoots: ParsableArguments {
    @Option(
        name: .customLong("root"),
        help: ArgumentHelp(
            "A directory or file to rotate; may be repeated (default: the home directory).", valueName: "dir"),
        completion: .directory)
    var roots: [PathArgument] = []
    @OptionGroup var jobs: JobsOption

    /// Where to look.
    var paths: [FilePath] {
        get throws(DataProtectionError) {
            try (roots.isEmpty ? [Locations.home] : roots.map(\.path)).map { path throws(DataProtectionError) in
                try StoredPlace.of(path)
            }
        }
    }
    /// What names them on another command line.
    var words: String { roots.map { " --root \(quoted($0.path))" }.joined() }

    /// Fails if a root is not there, before anything is changed. A link that was named is followed.
    func checked() throws(DataProtectionError) -> [FilePath] {
        try paths.map { path throws(DataProtectionError) in
            _ = try NamedItem(following: path)
            guard try NamedItem(path).kind == .link else { return path }
            return try NamedItem(following: path).kind == .directory ? path.appending(".") : path
        }
    }
}

/// One pass over all files below the roots: each one of this keybag is rewrapped, or only looked at.
final class RotationRun {
    /// What a pass does with a file that is under a retired class key.
    enum Task {
        case rewrap
        case look
    }

    /// What came of one file; nil: it was left alone, because the run was interrupted or stopped.
    typealias Product = Result<RewrapResult, DataProtectionError>?

    let outcome = Outcome()
    /// Files of this keybag that are under the active class keys now, and were before.
    private(set) var rewrappedCount = 0
    private(set) var currentCount = 0
    /// Those that are not, or of which it is not known.
    private(set) var remainingCount = 0
    private(set) var unknownCount = 0
    /// Whether another run has searched the same before, and has warned of what it met.
    var isRepeated = false
    /// Whether the keybag was locked meanwhile.
    private(set) var isLocked = false

    private let task: Task
    private let keybag: Keybag
    private let progress: Progress
    private var workers: FileWorkers<NamedItem, Product>?
    private var document: JSONDocument?
    private var outputFailure: Failure?
    private var done: Int64 = 0
    /// Where links lead that were met: each place is said once.
    private var linked: Set<FilePath> = []
    /// What has the copies of a backup, by its looks; and which of it was said to be in doubt.
    private var (copies, doubted): (Set<FilePath>, Set<FilePath>) = ([], [])

    /// - Parameter total: how many files there are; 0 if it is not known.
    init(_ task: Task, keybag: Keybag, threads: Int, isJSON: Bool, total: Int64) {
        self.task = task
        self.keybag = keybag
        progress = Progress(task == .rewrap ? "rotating" : "looking", total: total, of: .files)
        document = isJSON ? JSONDocument(listing: "files") : nil
        workers = FileWorkers(
            // Each file keeps its directory open.
            threads: threads, window: 64, work: { Self.work($0, task, keybag) },
            receive: { [unowned self] in receive($0.path, $1) }, whileWaiting: {})
    }

    /// Works on every regular file below the roots, and on those that the keybag keeps for itself.
    func visit(_ roots: [FilePath]) {
        var own = ownItems()
        let canonical = roots.compactMap(\.canonical)
        let walk = TreeWalk(crossesFileSystems: false) { [unowned self] in leaveOut($0, roots, canonical) }
        for root in roots {
            walk.walk(root, recordingIn: outcome) { item in
                // They stay under the class keys that the backup has.
                if item.kind == .directory, let entry = item.entry, Backup.holdsCopies(entry, of: keybag.uuid) {
                    copies.insert(item.path)
                    if task == .rewrap {
                        StandardError.line(.note, "\(quoted(item.path)) has the copies of a backup and is left out")
                        return .leaveOut
                    }
                }
                if item.kind == .file { workers?.add(item) }
                if item.kind == .link { look(behind: item, canonical) }
                own.removeAll { ($0.device, $0.inode) == (item.device, item.inode) }
                return Interruption.isRequested || isLocked ? .stop : .goOn
            }
        }
        if !Interruption.isRequested, !isLocked { for item in own { workers?.add(item) } }
        workers?.finish()
        workers = nil
        progress.finish()
    }

    /// The files that the keybag keeps for itself. One that is not reached would be lost with the retired keys.
    private func ownItems() -> [NamedItem] {
        do throws(DataProtectionError) {
            return try DownloadsDirectory.protectedFiles(of: keybag).map { path throws(DataProtectionError) in
                let item = try NamedItem(path)
                guard item.kind == .file else { throw .notRegularFile(path) }
                return item
            }
        } catch {
            unknownCount += 1
            outcome.record(error)
            return []
        }
    }

    /// Another file system below a root, unless it is a root too. What is in it is not known.
    private func leaveOut(_ item: NamedItem, _ roots: [FilePath], _ canonical: [FilePath]) {
        // What counts of a mount of ours is the directory with the stored files: below it, or elsewhere, perhaps below a root.
        let stored = (try? StoredPlace.of(item.path)) ?? item.path
        let place = (try? NamedItem(following: stored)) ?? item
        let isRoot = roots.contains { root in
            (try? NamedItem(following: root)).map { ($0.device, $0.inode) == (place.device, place.inode) } ?? false
        }
        if isRoot {
            if stored == item.path, task == .look, !isRepeated {
                let mount = quoted(item.path)
                StandardError.line(.warning, "files hidden by the mount at \(mount) are not searched: unmount it first")
            }
            return
        }
        if stored != item.path, let elsewhere = stored.canonical, elsewhere != item.path.canonical,
            canonical.contains(where: { elsewhere.starts(with: $0) })
        {
            return
        }
        StandardError.line(.warning, "\(quoted(item.path)) is another file system and is left out")
        leftOut(item.path)
    }

    /// A link is not followed. Files of this keybag may be where it leads, if that is the user's and not below a root.
    private func look(behind link: NamedItem, _ roots: [FilePath]) {
        guard let place = link.path.canonical, !roots.contains(where: { place.starts(with: $0) }),
            OwnDirectory.owner(of: place) == geteuid(), linked.insert(place).inserted,
            let item = try? NamedItem(place)
        else { return }
        switch item.kind {
        case .directory: break
        case .file:
            do throws(DataProtectionError) { guard try keybag.needsRewrap(fileAt: place) else { return } } catch {
                guard case .because(FileFailure.otherKey) = error else { return }
            }
        case .link, .other: return
        }
        StandardError.line(.warning, "\(quoted(link.path)) is a link to \(quoted(place)) and is not followed")
        leftOut(place)
    }

    private func leftOut(_ path: FilePath) {
        unknownCount += 1
        let verb = task == .rewrap ? "protectfs rotate --resume " : ""
        StandardError.line(.hint, "if there are files of this keybag: \(verb)--root \(quoted(path))")
    }

    /// How many regular files there are, for the bar.
    static func count(below roots: [FilePath]) -> Int64 {
        var count: Int64 = 0
        for root in roots {
            TreeWalk(crossesFileSystems: false) { _ in }.walk(root, recordingIn: nil) { item in
                if item.kind == .file { count += 1 }
                return Interruption.isRequested ? .stop : .goOn
            }
        }
        return count
    }

    private static func work(_ item: NamedItem, _ task: Task, _ keybag: Keybag) -> Product {
        if Interruption.isRequested { return nil }
        do throws(DataProtectionError) {
            if task == .look {
                let file = try item.entry == nil ? LowerFile.toLookAt(item.path) : item.file()
                let needs = try keybag.needsRewrap(file, isStrict: true)
                return .success(needs ? .rewrapped : .current)
            }
            guard let entry = item.entry else { return .success(try keybag.rewrap(fileAt: item.path)) }
            return .success(try keybag.rewrap(entry))
        } catch {
            return .failure(error)
        }
    }

    private func receive(_ path: FilePath, _ product: Product) {
        done += 1
        progress.show(done)
        switch product {
        case .success(.current): currentCount += 1
        case .success(.rewrapped) where task == .look:
            if let place = copies.first(where: { path.starts(with: $0) }) { return leaveCopy(place, path) }
            remainingCount += 1
        case .success(.rewrapped): rewrappedCount += 1
        case .failure(let error): if !fail(path, error) { return }
        case nil:
            unknownCount += 1
            return
        }
        if let product { add(path, product) }
    }

    /// - Returns: false for what is none of this keybag's files: most files below a home directory.
    private func fail(_ path: FilePath, _ error: DataProtectionError) -> Bool {
        switch error {
        case .notProtected, .because(FileFailure.foreignKeybag), .notRegularFile: return false
        // Deleted meanwhile: programs do that all the time.
        case .system(_, _, .noSuchFileOrDirectory): return false
        case .because(KeybagFailure.locked):
            remainingCount += 1
            if isLocked { return true }  // one message for all of them
            isLocked = true
        case .busy: remainingCount += 1
        case .because(KeybagFailure.keyLost): if task == .look { return true }  // nothing more of it is lost
        default: unknownCount += 1
        }
        outcome.record(error)
        return true
    }

    /// The keybag of a genuine backup opens it without the retired keys. But anybody can make a directory look like one.
    private func leaveCopy(_ place: FilePath, _ path: FilePath) {
        unknownCount += 1
        add(path, .success(.rewrapped))
        guard doubted.insert(place).inserted else { return }
        let keybag = place.removingLastComponent().appending("keybag")
        StandardError.line(
            .warning, "\(quoted(place)) looks like the copies of a backup, and has files under retired class keys")
        StandardError.line(
            .hint,
            "if it is a backup: name the other directories, by --root; if not: rm \(quoted(keybag)), then "
                + "protectfs rotate --resume --root \(quoted(place))")
    }

    // MARK: JSON

    private func add(_ path: FilePath, _ product: Result<RewrapResult, DataProtectionError>) {
        var members = JSON.members(of: path)
        switch product {
        case .success(let result):
            let word = task == .look && result == .rewrapped ? "retired" : result.rawValue
            members.append(("result", .string(word)))
        case .failure(let error):
            let failure = Failure(error)
            members += [
                ("result", .string("failed")), ("status", .number(Int64(failure.status.rawValue))),
                ("error", .string(failure.message)),
            ]
        }
        do throws(Failure) { try document?.add(.object(members)) } catch { outputFailure = outputFailure ?? error }
    }

    /// Prints the end of the JSON document.
    func finishDocument(generation: UInt32, retired: [UInt32]) throws(Failure) {
        if let outputFailure { throw outputFailure }
        let summary: [(String, JSON)] = [
            ("generation", .number(Int64(generation))),
            ("retiredGenerations", .array(retired.map { .number(Int64($0)) })),
            ("rewrapped", .number(Int64(rewrappedCount))), ("current", .number(Int64(currentCount))),
            ("remaining", .number(Int64(remainingCount))), ("unknown", .number(Int64(unknownCount))),
            ("interrupted", .bool(Interruption.isRequested)),
        ]
        try document?.finish([("summary", .object(summary))])
    }
}
