import ArgumentParser

/// Verbs that help shows together.
struct VerbGroup {
    let name: String
    /// Those that `protectfs --help` shows too: 22 in all groups at most.
    let first: [any ParsableCommand.Type]
    /// Those that only `help --all` shows.
    var further: [any ParsableCommand.Type] = []

    /// All verbs, in the order of help.
    static let all = [
        VerbGroup(
            name: "Every day",
            first: [Init.self, Unlock.self, Lock.self, Status.self, Mount.self, Unmount.self],
            further: [Agent.self]),
        VerbGroup(
            name: "Files and trees",
            first: [Protect.self, Unprotect.self, Upgrade.self, Class.self, Ls.self, Cat.self, Edit.self],
            further: [Write.self]),
        VerbGroup(
            name: "Keybag and recovery",
            first: [Passcode.self, Recovery.self, BackUp.self, Restore.self],
            further: [Rotate.self, TPM.self, ServiceSecret.self, Erase.self]),
        VerbGroup(name: "Secrets and downloads", first: [SecretCompanion.self, DownloadCompanion.self]),
        VerbGroup(
            name: "Diagnosis",
            first: [Explain.self, Doctor.self],
            further: [Verify.self, ConformanceCompanion.self]),
        VerbGroup(
            name: "For programs",
            first: [Run.self],
            // Repair is shown nowhere: no hint needs it.
            further: [Raw.self, Wait.self, Watch.self, Queue.self, Password.self, RNCryptor.self, Repair.self]),
    ]
}

/// What `protectfs --help` shows: the root with fewer verbs. It is never parsed.
struct FirstScreen: ParsableCommand {
    static let configuration: CommandConfiguration = {
        var configuration = Protectfs.configuration
        configuration.groupedSubcommands = VerbGroup.all.map { CommandGroup(name: $0.name, subcommands: $0.first) }
        return configuration
    }()

    /// Whether the words ask for it.
    static func isMeant(by words: [String]) -> Bool { [[], ["--help"], ["-h"], ["help"]].contains(words) }
}
