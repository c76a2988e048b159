import ArgumentParser
import DataProtection
import Glibc

/// Evicts the class keys from the kernel keyring.
struct Lock: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock", abstract: "Evict the class keys: complete and unless-open files can no longer be opened.",
        discussion: """
            The keys are evicted at once. Then lock waits, one second at most, for programs that have protected \
            files open. It lists programs that did not respond, that have unless-open files open, or that still hold \
            plaintext from protectfs run or protectfs edit.

            If the keybag cannot be opened, the keys of every keybag are evicted. With --grace the command waits \
            first; if it is killed meanwhile, the kernel lets the keys expire at the same time.
            """)

    @Option(
        help: ArgumentHelp("Wait this many seconds before locking, so that programs can save.", valueName: "seconds"))
    var grace: UInt32?
    @Flag(help: "Lock every keybag whose keys are in the kernel keyring.")
    var all = false
    @Flag(
        help: "Exit with status 75 if a program may still hold keys of complete files, or plaintext from run or edit.")
    var requireClean = false
    @Flag(help: "Print the report as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if all && grace != nil { throw ValidationError("--all locks at once and cannot be used with --grace") }
        if let grace, grace > 86_400 { throw ValidationError("--grace takes at most 86400 seconds") }
    }

    func run() throws {
        defer { EditDirectory.removeLeftovers() }
        if all { return try lockAll() }
        let keybag: Keybag
        do throws(DataProtectionError) {
            keybag = try self.keybag.open()
        } catch {
            return try lockAnyway(error)
        }
        if let grace, grace > 0 { return try lock(keybag, after: grace) }
        try LockRemains([(keybag, keybag.lock(waiting: 1))]).tell(asJSON: json, requireClean: requireClean)
    }

    /// The keybag cannot be read, but its keys are in the ring under a name that only it knows: all go.
    private func lockAnyway(_ error: DataProtectionError) throws {
        if let owner = OwnDirectory.owner(of: KeybagOption.opened), owner != geteuid() { throw error }
        let locked = try Keybag.lockAll()
        defer { if json { try? LockRemains([]).tell(asJSON: true, requireClean: false) } }
        let evicted = "the keys of every keybag were evicted (\(locked.count))"
        if case .keybagNotFound = error, keybag.isExplicit || locked.isEmpty {
            // The name may be mistyped, so that the keybag that was meant is not known to be locked.
            if !locked.isEmpty { StandardError.line(.warning, evicted) }
            throw error
        }
        StandardError.line(.warning, error.message)
        StandardError.line(.warning, "so \(evicted)")
        if let hint = error.hint { StandardError.line(.hint, hint) }
        guard try !Keybag.lock(unopened: KeybagOption.opened) else { return }
        let record = quoted(KeybagOption.opened.appending("rings"))
        StandardError.line(
            .warning, "\(record) cannot be read, so keys in other user namespaces cannot be ruled out")
        StandardError.line(.hint, "if you unlocked in a container or namespace, lock there too")
    }

    private func lockAll() throws {
        // The keys first; then each keybag that is there notes it, so that an unlock under way loses.
        var locked: [(Keybag, LockReport)] = []
        for uuid in try Keybag.lockAll() {
            if let known = try? Keybag.remembered(uuid) { locked.append((known, try known.lock(waiting: 1))) }
        }
        if let own = try? keybag.open(), !locked.contains(where: { $0.0.uuid == own.uuid }) {
            locked.append((own, try own.lock(waiting: 1)))
        }
        try LockRemains(locked).tell(asJSON: json, requireClean: requireClean)
    }

    private func lock(_ keybag: Keybag, after seconds: UInt32) throws {
        Interruption.watch()
        guard var armed = try keybag.armLock(seconds: seconds) else {
            // There is nothing to lock.
            let report = keybag.lockReport(waiting: 1)
            return try LockRemains([(keybag, report)]).tell(asJSON: json, requireClean: requireClean)
        }
        while armed.secondsLeft > 0 {
            if !keybag.isStanding(armed) {
                // Somebody else may have armed a lock that is due earlier: it is this one, only sooner.
                guard let earlier = keybag.armedLock, earlier.deadline < armed.deadline else { break }
                armed = earlier
                continue
            }
            guard Interruption.sleep(seconds: min(armed.secondsLeft, 1)) else {
                let left = Int(clamping: armed.secondsLeft.rounded(.up)) + 1
                StandardError.line(.warning, "interrupted; the keys still expire in \(left) s")
                StandardError.line(.hint, "lock now: protectfs lock; or stay unlocked: protectfs unlock")
                throw ExitStatus.interrupted
            }
        }
        if !keybag.isStanding(armed), try keybag.state() == .unlocked {
            throw Failure(.notNow, "\(quoted(keybag.directory)) was unlocked meanwhile and stays unlocked")
        }
        // Also after another lock that came first: keys in other namespaces, and programs, are this command's to report.
        try LockRemains([(keybag, keybag.lock(waiting: 1))]).tell(asJSON: json, requireClean: requireClean)
    }
}
