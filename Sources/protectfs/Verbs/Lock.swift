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

            If the keybag cannot be opened, the keys of every keybag are evicted. If an unlock that began before may \
            still load keys, lock exits with status 75 and says why. With --grace the command waits first; if it is \
            killed meanwhile, the kernel lets the keys expire at the same time.
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
        // Before the keybag's directory is looked at, which may be on a disk that hangs.
        let keysWereThere = (grace ?? 0) == 0 && KeybagRegistry.evictKeys(ofKeybagsUnder: self.keybag.location)
        let keybag: Keybag
        do throws(DataProtectionError) {
            keybag = try self.keybag.open()
        } catch {
            return try lockAnyway(error)
        }
        if let grace, grace > 0 { return try lock(keybag, after: grace) }
        try tell(keybag) { keybag throws(DataProtectionError) in
            _ = try keybag.lock(waiting: 0, keysWereThere: keysWereThere)
        }
    }

    private func lockNow(_ keybag: Keybag) throws(DataProtectionError) { _ = try keybag.lock(waiting: 0) }

    /// Says what remains after `lock`, also if that is not proven.
    private func tell(_ keybag: Keybag, after lock: (Keybag) throws(DataProtectionError) -> Void) throws {
        var failures: [DataProtectionError] = []
        do throws(DataProtectionError) { try lock(keybag) } catch {
            guard case .because(KeybagFailure.lockUnproven) = error else { throw error }
            failures = [error]
        }
        try LockRemains([keybag], failures).tell(asJSON: json, requireClean: requireClean)
    }

    /// The keybag cannot be read, but its keys are in the ring under a name that only it knows: all go.
    private func lockAnyway(_ error: DataProtectionError) throws {
        guard !isAnothers else { throw error }
        let locked = try Keybag.lockEach()
        let evicted = "the keys of every keybag were evicted (\(locked.keybags.count))"
        var failures = locked.failures
        var directory: FilePath?
        if case .because(KeybagFailure.keybagNotFound) = error, keybag.isExplicit || locked.keybags.isEmpty {
            // The name may be mistyped, so that the keybag that was meant is not known to be locked.
            if !locked.keybags.isEmpty { StandardError.line(.warning, evicted) }
            failures.append(error)
        } else {
            StandardError.line(.warning, error.message)
            StandardError.line(.warning, "so \(evicted)")
            if let hint = error.hint { StandardError.line(.hint, hint) }
            stopUnlock(&failures)
            directory = KeybagOption.opened
        }
        for stranger in locked.ofOthers { stranger.tell() }
        try LockRemains([], failures, in: directory).tell(asJSON: json, requireClean: requireClean)
    }

    /// Whether the keybag that this command is about belongs to another user, whose keys are in another ring.
    private var isAnothers: Bool { OwnDirectory.owner(of: KeybagOption.opened).map { $0 != geteuid() } ?? false }

    /// One that is under way, of the keybag that this command is about and that cannot be opened.
    private func stopUnlock(_ failures: inout [DataProtectionError]) {
        let directory = KeybagOption.opened
        do throws(DataProtectionError) {
            let (areRingsKnown, doubt) = try LockOfUnopened.lock(unopened: directory)
            if !areRingsKnown {
                let record = quoted(directory.appending("rings"))
                StandardError.line(
                    .warning, "\(record) cannot be read, so keys in other user namespaces cannot be ruled out")
                StandardError.line(.hint, "if you unlocked in a container or namespace, lock there too")
            }
            if let doubt { throw .because(KeybagFailure.lockUnproven(keybag: directory, doubt)) }
        } catch {
            if !failures.contains(error) { failures.append(error) }
        }
    }

    private func lockAll() throws {
        let locked = try Keybag.lockEach()
        var failures = locked.failures
        var isUnopened = false
        var keybags = locked.opened
        do throws(DataProtectionError) {
            let own = try keybag.open()
            if !keybags.contains(where: { $0.uuid == own.uuid }) {
                keybags.append(own)
                do throws(DataProtectionError) { try lockNow(own) } catch {
                    if !failures.contains(error) { failures.append(error) }
                }
            }
        } catch .because(KeybagFailure.keybagNotFound) {
            // Then no key of it can be loaded.
        } catch {
            if isAnothers {
                failures.append(error)
            } else {
                isUnopened = true
                StandardError.line(.warning, error.message)
                stopUnlock(&failures)
            }
        }
        for stranger in locked.ofOthers { stranger.tell() }
        try LockRemains(
            keybags, failures, unopened: locked.unopened, in: isUnopened ? KeybagOption.opened : nil
        ).tell(asJSON: json, requireClean: requireClean)
    }

    private func lock(_ keybag: Keybag, after seconds: UInt32) throws {
        Interruption.watch()
        let found: ArmedLock?
        do throws(DataProtectionError) { found = try keybag.armLock(seconds: seconds) } catch {
            return try tell(keybag) { _ throws(DataProtectionError) in throw error }  // it was locked at once
        }
        guard let own = found else {
            return try tell(keybag) { _ throws(DataProtectionError) in }  // there is nothing to lock
        }
        var armed = own
        while armed.secondsLeft > 0 {
            if !keybag.isStanding(armed) {
                // Somebody else may have armed a lock that is due earlier: it is this one, only sooner; or ended that, so that this one stands again.
                guard let standing = keybag.armedLock, standing.deadline <= own.deadline else { break }
                armed = standing
                continue
            }
            guard Interruption.sleep(seconds: min(armed.secondsLeft, 1)) else {
                let left = Int(clamping: keybag.secondsToExpiry(while: armed).rounded(.up)) + 1
                StandardError.line(.warning, "interrupted; the keys still expire in \(left) s")
                StandardError.line(.hint, "lock now: protectfs lock; or stay unlocked: protectfs unlock")
                throw ExitStatus.interrupted
            }
        }
        if !keybag.isStanding(armed), try keybag.state() == .unlocked {
            throw Failure(.notNow, "\(quoted(keybag.directory)) was unlocked meanwhile and stays unlocked")
        }
        // Also after another lock that came first: keys in other namespaces, and programs, are this command's to report.
        try tell(keybag, after: lockNow)
    }
}

extension LockedKeybags.Stranger {
    /// Says that it is not locked here, and how it is forgotten.
    fileprivate func tell() {
        StandardError.line(
            .warning, "keybag \(quoted(directory)) was used here and belongs to uid \(owner) now; it is not locked")
        StandardError.line(
            .hint, "lock it as that user, for example with sudo -u '#\(owner)'; to forget it here: rm \(quoted(link))")
    }
}
