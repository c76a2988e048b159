import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionKeys
import SystemPackage

/// An upgrade of which something could not be done while locked: what is to be done again, and where.
package struct QueuedUpgrade: Hashable {
    /// As in ``FileReference``.
    package let device: UInt64
    package let inode: UInt64
    /// The directory, absolute, without links.
    package let path: FilePath
    package let plan: UpgradePlan

    /// Bytes of the rules in a note. Each rule of a few bytes takes a hundred in memory.
    fileprivate static let longestRules = 1 << 20

    /// The fields of its record in a note, behind the word. FORMAT.md §2.8.
    package var fields: [[UInt8]] {
        [
            Array("\(device)".utf8), Array("\(inode)".utf8), path.bytes,
            plan.protectionClass.map { Array("\($0.rawValue)".utf8) } ?? [], Array("\(plan.includes.sum)".utf8),
            plan.rules?.lines ?? [],
        ]
    }

    package init(device: UInt64, inode: UInt64, path: FilePath, plan: UpgradePlan) {
        (self.device, self.inode, self.path, self.plan) = (device, inode, path, plan)
    }

    package init?(fields: some Collection<ArraySlice<UInt8>>) {
        let fields = fields.map(Array.init)
        let texts = fields.map { String(decoding: $0, as: UTF8.self) }
        guard fields.count == 6, let device = UInt64(texts[0]), let inode = UInt64(texts[1]),
            fields[2].first == UInt8(ascii: "/"), let includes = UInt8(texts[4]).flatMap({ Set<LeftOut>(sum: $0) }),
            "\(includes.sum)" == texts[4]
        else { return nil }
        let named = UInt8(texts[3]).flatMap { ProtectionClass(rawValue: $0) }
        guard named != nil || fields[3].isEmpty else { return nil }
        // Lines that this version does not understand are no reason to protect everything as the class says.
        guard fields[5].count <= Self.longestRules,
            let rules = try? UpgradeRules(parsing: fields[5], at: "", isFile: false)
        else { return nil }
        self.init(
            device: device, inode: inode, path: FilePath(bytes: fields[2]),
            plan: UpgradePlan(
                protectionClass: named, rules: rules.lines.isEmpty ? nil : rules, includes: includes))
    }
}

extension UpgradePass {
    /// Notes that it is to be done again after an unlock, once, however many files wait for it.
    package func queue() throws(DataProtectionError) {
        let record = QueueRecord.upgrade(try queued())
        guard try notes(of: record, holding: false).isEmpty else { return }
        _ = try QueueNote(record, in: keybag.directory)
    }

    /// A pass that came to its end, by whatever way, has left nothing of it to an unlock: failures have been said.
    ///
    /// That a note cannot be removed is no failure: it costs a look.
    package func forget() {
        guard keybag.queuedWorkCount > 0, let done = try? QueueRecord.upgrade(queued()) else { return }
        for note in (try? notes(of: done, holding: true)) ?? [] { try? note.remove() }
    }

    /// What would be noted.
    private func queued() throws(DataProtectionError) -> QueuedUpgrade {
        let status = try rootStatus()
        guard plan.rules?.lines.count ?? 0 <= QueuedUpgrade.longestRules else {
            throw .system(place, operation: "queue", .argListTooLong)
        }
        return QueuedUpgrade(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino), path: place, plan: plan.withoutSource)
    }

    private func notes(of work: QueueRecord, holding: Bool) throws(DataProtectionError) -> [QueueNote] {
        var notes: [QueueNote] = []
        for number in try QueueNote.numbers(in: keybag.directory) {
            // The process that works through the queue reports notes that cannot be read.
            let note = try QueueNote.read(number, in: keybag.directory, holding: holding) { _ in }
            if let note, note.records.first == work { notes.append(note) }
        }
        return notes
    }
}

extension UpgradePlan {
    /// The same, with rules that come from nowhere: those of a note. Rules that say nothing, comments only, are none there.
    package var withoutSource: UpgradePlan {
        UpgradePlan(
            protectionClass: protectionClass, rules: rules.flatMap { $0.lines.isEmpty ? nil : $0.withoutSource },
            includes: includes)
    }
}

extension QueuedUpgrade {
    /// Does it. A lock stops it between files.
    ///
    /// - Returns: what came of it when nothing waits for an unlock any more; nil if the directory is gone.
    /// - Throws: `locked`; `system` if its disk is away.
    func perform(
        _ keybag: Keybag, showing show: @escaping (_ files: Int, _ bytes: Int64) -> Void
    ) throws(DataProtectionError) -> UpgradeSummary? {
        var options = UpgradeOptions()
        options.includes = plan.includes
        options.queuesWhatIsLocked = false
        options.stopsWhenLocked = true
        guard DirectoryDefault.isDirectory(path) else { return try gone() }
        let pass = try UpgradePass(
            keybag, path, to: plan.protectionClass, rules: plan.rules, options: options)
        guard UInt64(try pass.rootStatus().st_ino) == inode else { return try gone() }
        var count = 0
        let showNow = { show(count, pass.done.bytes) }
        let summary = pass.run(whileWaiting: showNow) { _ in
            count += 1
            showNow()
        }
        if let locked = summary.failures.first(where: { $0.error.isLocked }) { throw locked.error }
        return summary
    }
}

extension QueueNote {
    /// How long the background leaves an upgrade alone in which something failed, in seconds: a file that cannot be done is
    /// no reason to read a whole tree after every unlock.
    private static let rest: UInt64 = 24 * 60 * 60

    /// Whether it is an upgrade that failed a short time ago.
    package var isResting: Bool {
        guard case .upgrade = records.first, case .failed(_, let time) = records.last else { return false }
        let now = Clock.now()
        return time <= now && now - time < Self.rest
    }
}

extension QueuedUpgrade {
    /// - Throws: `system` with ENOENT if its disk is away.
    fileprivate func gone() throws(DataProtectionError) -> UpgradeSummary? {
        _ = try FileReference(device: device, inode: inode, path: path).gone()
        return nil
    }
}
