import ArgumentParser
import ProtectionDownloads

@main
struct ProtectfsDownload: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "protectfs download", abstract: "Downloads that go on while locked.")
}
