import DataProtection
import Glibc

/// What remains after a lock, said to people or to a script; nothing for people if nothing remains.
struct LockRemains {
    private let reports: [(keybag: Keybag, report: LockReport)]
    private let failures: [DataProtectionError]
    /// Keybags of which keys have gone, and which could not be opened.
    private let unopened: [KeybagUUID]
    /// What remains of the keybag in a directory that could not be opened. Nothing where its programs cannot be asked either.
    private let directory: (path: FilePath, report: LockReport?)?

    /// Waits a second at most for the programs that have files of each keybag open.
    ///
    /// - Parameters:
    ///   - keybags: whose keys have gone.
    ///   - failures: what of the lock is not proven, or did not succeed.
    ///   - unopened: keybags whose keys have gone, too, and which could not be opened: nobody can be asked.
    ///   - directory: of a keybag whose keys have gone, and which could not be opened.
    init(
        _ keybags: [Keybag], _ failures: [DataProtectionError], unopened: [KeybagUUID] = [],
        in directory: FilePath? = nil
    ) {
        self.directory = directory.map { ($0, LockReport.remains(ofUnopened: $0, waiting: 1)) }
        reports = keybags.map { (keybag: $0, report: $0.lockReport(waiting: 1)) }
        self.failures = failures
        self.unopened = unopened
    }

    /// - Throws: the status of the failures; status 75 if it is not clean and had to be.
    func tell(asJSON: Bool, requireClean: Bool) throws {
        for keybag in reports.map(\.keybag) {
            for problem in KeybagHealth(of: keybag.directory).problems { problem.tell() }
        }
        if asJSON {
            var all = reports.map { keybag, report in
                members(
                    keybag.uuid, named: keybag.directory, in: keybag.directory, report,
                    opensFirstUnlock: Self.opensFirstUnlock(keybag))
            }
            all += unopened.map { members($0, named: LockOfUnopened.name(of: $0), in: nil, nil) }
            if let (path, report) = directory { all.append(members(nil, named: path, in: path, report)) }
            try JSON.object([("keybags", .array(all))]).print()
        } else {
            say()
            if isatty(2) == 1 { sayFirstUnlock() }
        }
        let outcome = Outcome()
        for failure in failures { outcome.record(failure) }
        try outcome.leave()
        if requireClean { try refuseRemains() }
    }

    /// To people: the programs and mounts that may still have keys or plaintext.
    func say() {
        for client in silentOrHolding { say(client) }
        for mount in mounts { say(mount) }
        for uuid in unopened {
            StandardError.line(
                .warning, "programs with files of keybag \(uuid) cannot be asked what they have: it cannot be opened")
        }
        if let directory, directory.report == nil {
            StandardError.line(
                .warning,
                "programs with files of keybag \(quoted(directory.path)), and mounts of them, cannot be asked what they have"
            )
        }
        if isIncomplete { StandardError.line(.warning, "not every program could be asked") }
    }

    private func refuseRemains() throws(Failure) {
        guard allReports.contains(where: { !$0.isClean }) else {
            let unasked = directory.flatMap { $0.report == nil ? quoted($0.path) : nil } ?? unopened.first?.description
            guard let unasked else { return }
            throw Failure(
                .notNow, "the keys were evicted, but programs with files of keybag \(unasked) may still hold plaintext",
                hint: "end the programs that used its files, or make the keybag available again")
        }
        let silent = silentOrHolding.count { !$0.hasAnswered }
        if let mount = mounts.first(where: { !$0.isServed }) {
            throw Failure(
                .notNow, "the keys were evicted, but plaintext that a mount showed may still be in memory",
                hint: "unmount it, then lock again: protectfs unmount \(quoted(mount.point))")
        }
        let programs = isIncomplete ? "some programs" : silent == 1 ? "1 program" : "\(silent) programs"
        if isIncomplete || silent > 0 {
            throw Failure(
                .notNow, "the keys were evicted, but \(programs) may still have keys of complete files in memory",
                hint: "resume or stop the programs that did not respond, then lock again")
        }
        let holders = silentOrHolding.count { $0.plaintextFileCount > 0 }
        throw Failure(
            .notNow,
            "the keys were evicted, but \(holders == 1 ? "1 program" : "\(holders) programs") still "
                + "\(holders == 1 ? "holds" : "hold") plaintext from protectfs run or protectfs edit",
            hint: "end these programs, then lock again; they are listed by: protectfs status --clients")
    }

    private var allReports: [LockReport] { reports.map(\.report) + [directory?.report].compactMap { $0 } }
    private var silentOrHolding: [KeybagClient] { allReports.flatMap(\.clients) }
    private var mounts: [UnansweredMount] { allReports.flatMap(\.mounts) }

    /// Whether perhaps somebody was not asked.
    private var isIncomplete: Bool { !allReports.allSatisfy(\.areAll) }

    private func say(_ client: KeybagClient) {
        if !client.hasAnswered {
            StandardError.line(
                .warning,
                "\(client.spoken) did not respond: it may have the key of a complete file in memory")
        }
        if client.unlessOpenHandles > 0 {
            let count = client.unlessOpenHandles
            let files = count == 1 ? "1 unless-open file" : "\(count) unless-open files"
            StandardError.line(
                .note,
                "\(client.spoken) has \(files) open, and can still read and write: "
                    + KeybagClient.listed(client.unlessOpenFiles, of: count))
        }
        if let plaintext = client.plaintext {
            StandardError.line(.warning, "\(client.spoken) still holds plaintext of \(plaintext)")
        }
    }

    private func say(_ mount: UnansweredMount) {
        let point = quoted(mount.point)
        StandardError.line(
            .warning,
            mount.isServed
                ? "the mount at \(point) still has what its server (process \(mount.server)) showed in memory"
                : "the server of the mount at \(point) (process \(mount.server)) was killed: "
                    + "what it showed may still be in memory")
        for holder in mount.holders where !holder.files.isEmpty {
            StandardError.line(.warning, "\(holder.spoken) can still read what is cached of \(holder.listedFiles)")
        }
    }

    /// To a person only: it is so after every lock, and no news to a script.
    private func sayFirstUnlock() {
        guard reports.contains(where: { Self.opensFirstUnlock($0.keybag) }) else { return }
        StandardError.line(.note, "first-unlock files can still be read until the machine restarts")
    }

    private static func opensFirstUnlock(_ keybag: Keybag) -> Bool {
        (try? keybag.status().openClasses.contains(.completeUntilFirstUserAuthentication)) ?? false
    }

    /// Of one keybag.
    ///
    /// - Parameters:
    ///   - uuid: nil where its keybag could not be opened.
    ///   - name: what the failures call it.
    ///   - directory: nil where it was not found.
    ///   - report: nil where nobody can be asked.
    ///   - opensFirstUnlock: nil: not known.
    private func members(
        _ uuid: KeybagUUID?, named name: FilePath, in directory: FilePath?, _ report: LockReport?,
        opensFirstUnlock: Bool? = nil
    ) -> JSON {
        let reason = reason(of: name)
        return .object(
            [("uuid", uuid.map { .string("\($0)") } ?? .null)]
                + (directory.map { JSON.members(of: $0, named: "directory") } ?? [("directory", .null)]) + [
                    ("clean", .bool(report?.isClean == true && reason == nil)), ("proven", .bool(reason == nil)),
                    ("reason", reason.map(JSON.string) ?? .null),
                    ("firstUnlock", opensFirstUnlock.map { .string($0 ? "open" : "locked") } ?? .null),
                    ("clients", .array(report?.clients.map(\.json) ?? [])),
                    ("mounts", .array(report?.mounts.map(\.json) ?? [])),
                ])
    }

    /// Why keys may be there, or come back; nil: they have gone.
    private func reason(of directory: FilePath) -> String? {
        for case .because(let failure as KeybagFailure) in failures {
            switch failure {
            case .lockUnproven(directory, let doubt): return doubt.word
            case .keysElsewhere(directory, _): return "elsewhere"
            default: continue
            }
        }
        return nil
    }
}

extension LockDoubt {
    /// For a script.
    fileprivate var word: String {
        switch self {
        case .held: "held"
        case .unwritable: "unwritable"
        }
    }
}

extension UnansweredMount {
    /// For a script.
    fileprivate var json: JSON {
        .object(
            JSON.members(of: point, named: "point") + [
                ("server", .number(Int64(server))), ("served", .bool(isServed)),
                ("programs", .array(holders.map(\.json))),
            ])
    }
}

extension MountHolder {
    /// For a sentence.
    var spoken: String { "\(quoted(program)) (process \(pid))" }

    /// Its first files, and how many more there are.
    var listedFiles: String { KeybagClient.listed(Array(files.prefix(16)), of: files.count) }

    /// For a list.
    var json: JSON {
        .object([
            ("pid", .number(Int64(pid))), ("program", .string(program)),
            ("files", .array(files.map { .object(JSON.members(of: $0)) })),
        ])
    }
}

extension KeybagClient {
    /// For a sentence.
    var spoken: String { "\(quoted(program)) (process \(pid))" }

    /// The files whose plaintext it was given; nil: none.
    var plaintext: String? { plaintextFileCount > 0 ? Self.listed(plaintextFiles, of: plaintextFileCount) : nil }

    /// The files that are named, and how many more there are.
    static func listed(_ files: [FilePath], of count: Int) -> String {
        let others = count > files.count ? ["\(count - files.count) more"] : []
        return (files.map { quoted($0) } + others).joined(separator: ", ")
    }

    /// For a list.
    var json: JSON {
        .object([
            ("pid", .number(Int64(pid))), ("program", .string(program)),
            ("completeFiles", .number(Int64(completeHandles))), ("unlessOpenFiles", .number(Int64(unlessOpenHandles))),
            ("unlessOpenPaths", .array(unlessOpenFiles.map { .object(JSON.members(of: $0)) })),
            ("plaintextFiles", .number(Int64(plaintextFileCount))),
            ("plaintextPaths", .array(plaintextFiles.map { .object(JSON.members(of: $0)) })),
            ("answered", .bool(hasAnswered)),
        ])
    }
}
