import ArgumentParser

/// Passwords of a service's users, which have nothing to do with the keybag.
struct Password: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "password", abstract: "Hash and check passwords of a service's users.",
        discussion: """
            For administrators of services that use the library PasswordHash, or read the same strings in another \
            way. To change the passcode of your keybag: protectfs passcode
            """,
        subcommands: [HashPassword.self, VerifyPassword.self])
}
