import ArgumentParser

/// What helps when a passcode, a machine or a keybag is lost.
struct Recovery: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recovery", abstract: "Create a recovery code; export and restore the keybag.",
        discussion: """
            A recovery code opens the keybag without the passcode and without this machine: protectfs passcode \
            --with-recovery-code. An export is a copy of the keybag, for the case that its disk is lost. The export \
            opens nothing by itself.
            """,
        subcommands: [RecoveryNew.self, RecoveryExport.self, RecoveryRestore.self])
}
