import ArgumentParser
import DataProtection

/// Evicts the class keys from the kernel keyring.
struct Lock: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock", abstract: "Take the class keys away, so that complete and unless-open files stay shut.",
        discussion: """
            Works even if the keybag's directory cannot be read: then the keys of every keybag are taken away. With --grace \
            the command waits and locks then; if it is killed, the kernel lets the keys expire within a second after that.
            """)

    @Option(help: ArgumentHelp("Lock after this many seconds, so that programs can save.", valueName: "seconds"))
    var grace: UInt32?
    @Flag(help: "Lock every keybag whose keys are in the kernel keyring.")
    var all = false
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if all && grace != nil { throw ValidationError("--all locks at once; it has no --grace") }
        if let grace, grace > 86_400 { throw ValidationError("--grace is a day, 86400 seconds, at most") }
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
        try keybag.lock()
    }

    /// The keybag cannot be read, but its keys are in the ring under a name that only it knows: all go.
    private func lockAnyway(_ error: DataProtectionError) throws {
        let locked = try Keybag.lockAll()
        if case .keybagNotFound = error, locked.isEmpty { throw error }
        StandardError.line(.warning, error.message)
        StandardError.line(.warning, "so the keys of every keybag were taken away (\(locked.count))")
    }

    private func lockAll() throws {
        // The keys first; then each keybag that is there notes it, so that an unlock under way loses.
        for uuid in try Keybag.lockAll() {
            if let known = try? Keybag.remembered(uuid) { try known.lock() }
        }
        if let own = try? keybag.open() { try own.lock() }
    }

    private func lock(_ keybag: Keybag, after seconds: UInt32) throws {
        Interruption.watch()
        guard let armed = try keybag.armLock(seconds: seconds) else { return }  // there is nothing to lock
        while armed.secondsLeft > 0, keybag.isStanding(armed) {
            guard Interruption.sleep(seconds: min(armed.secondsLeft, 1)) else {
                let left = Int(armed.secondsLeft.rounded(.up)) + 2
                StandardError.line(.warning, "interrupted; the kernel lets the keys expire in \(left) s all the same")
                StandardError.line(.hint, "lock now: protectfs lock; or stay unlocked: protectfs unlock")
                throw ExitStatus.interrupted
            }
        }
        if try !keybag.finishLock(armed), try keybag.state() == .unlocked {
            throw Failure(.notNow, "\(quoted(keybag.directory)) was unlocked meanwhile and stays so")
        }
    }
}
