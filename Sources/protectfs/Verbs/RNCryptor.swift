import ArgumentParser

/// Files in a format of others.
struct RNCryptor: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rncryptor", abstract: "Open and seal files in the RNCryptor format.",
        discussion: """
            Use it only to exchange files with software that supports nothing better: the format's passwords can be \
            guessed fast.
            """,
        subcommands: [RNCryptorOpen.self, RNCryptorSeal.self])
}
