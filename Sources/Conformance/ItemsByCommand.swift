package import DataProtection
package import SystemPackage

/// Secrets for the library of files, which has none: those of `protectfs secret`, each time another process.
package final class ItemsByCommand: ItemStore {
    private let command: CommandSubject

    /// - Parameter program: as ``CommandSubject`` takes it.
    package init(_ stage: Stage, program: FilePath) { command = CommandSubject(stage, program: program) }

    package func addItem(_ account: String, as protectionClass: ProtectionClass, _ bytes: [UInt8]) throws {
        try command.addItem(account, as: protectionClass, bytes)
    }

    package func readItem(_ account: String) throws -> [UInt8] { try command.readItem(account) }

    package func updateItem(_ account: String, _ bytes: [UInt8]) throws { try command.updateItem(account, bytes) }

    package func isLocked(_ error: any Error, _ moment: Moment, _ classes: Set<ProtectionClass>) -> Bool {
        command.finding(of: error, at: moment, classes: classes) == .locked
    }
}
