import ArgumentParser
import DataProtection

/// Waits for a lock or an unlock.
struct Wait: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait", abstract: "Wait until the keybag is unlocked or locked.",
        discussion: """
            Returns at once if the keybag is in that state already. Sleeps until then and uses no processor time: \
            protectfs wait && protectfs cat notes

            With --until locked it fails with status 75 if another user namespace, such as a container, still holds \
            the keys.
            """)

    /// What is waited for.
    enum Aim: String, ExpressibleByArgument, CaseIterable {
        case unlocked, locked
    }

    @Option(help: ArgumentHelp("The state to wait for.", valueName: "state"))
    var until = Aim.unlocked
    @Option(
        help: ArgumentHelp("Fail with status 75 after this time: 90 or 90s, 10m, 2h, 1d.", valueName: "time"))
    var timeout: DurationArgument?
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybag = try keybag.open()
        let feed = try EventFeed(of: keybag)
        let clock = ContinuousClock()
        let end = timeout.map { clock.now + .seconds($0.seconds) }
        // Listening has begun: no unlock falls between this look and the sleep.
        while try (keybag.knownState() == .unlocked) != (until == .unlocked) {
            let left = end.map { ($0 - clock.now) / .seconds(1) }
            guard left ?? 1 > 0 else { throw giveUp(keybag) }
            _ = try feed.next(within: left)
        }
        // Scripts take this for a lock's success, so it says no more than a lock does.
        if until == .locked { try keybag.refuseKeysElsewhere() }
    }

    private func giveUp(_ keybag: Keybag) -> Failure {
        let name = quoted(keybag.directory)
        guard until == .unlocked else { return Failure(.notNow, "\(name) is still unlocked") }
        return Failure(
            .notNow, "\(name) is still locked",
            hint: "unlock it: protectfs unlock\(KeybagOption.words(for: keybag.directory))")
    }
}
