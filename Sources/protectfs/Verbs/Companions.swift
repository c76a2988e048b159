import ArgumentParser

/// `protectfs secret`, for help: the program beside this one knows its verbs.
struct SecretCompanion: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: Companion.secret.rawValue, abstract: Companion.secret.abstract)
}

/// `protectfs download`, for help: the program beside this one knows its verbs.
struct DownloadCompanion: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: Companion.download.rawValue, abstract: Companion.download.abstract)
}

/// `protectfs conformance`, for help: the program beside this one knows its options.
struct ConformanceCompanion: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: Companion.conformance.rawValue, abstract: Companion.conformance.abstract)
}
