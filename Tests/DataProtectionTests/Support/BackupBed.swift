import Foundation
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// Files of one keybag, a backup of them, and a restorer with another keybag and another device key.
final class BackupBed: Sendable {
    static let passphrase = "a passphrase for a backup in tests"
    let bed: FileTestBed
    let restorer: TestKeybag
    /// The backup's directory.
    let backup: FilePath
    /// The bed's directory, as a backup names it.
    let root: FilePath
    var keybag: Keybag { bed.keybag }

    init(makesKeybag: Bool = true) throws {
        bed = try FileTestBed()
        restorer = try TestKeybag(state: .unlocked)
        backup = bed.bag.scratchPath.appending("backup")
        root = try bed.directory.resolved()
        if makesKeybag {
            try Backup(at: backup, for: .backup)
                .makeKeybag(of: bed.keybag, passphrase: secret(Self.passphrase), iterations: TestKeybag.iterations)
        }
    }

    /// What became of each item, by its name.
    typealias Results = [String: String]

    private static func word(_ outcome: BackupResult.Outcome) -> String {
        switch outcome {
        case .failed(let error): error.caseName
        case .restoredEarlier: "restoredEarlier"
        default: "\(outcome)"
        }
    }

    /// Collects results of a pass.
    private final class Collected {
        var results: Results = [:]
        func add(_ result: BackupResult) {
            results[result.path.lastComponent?.string ?? "/"] = BackupBed.word(result.outcome)
        }
    }

    @discardableResult
    func backUp(_ roots: [FilePath]? = nil, delete: Bool = false) throws -> Results {
        let collected = Collected()
        let pass = try BackupPass(keybag, into: Backup(at: backup, for: .backup), removesDeleted: delete)
        pass.run(roots ?? [bed.directory]) { collected.add($0) }
        return collected.results
    }

    func renew(passphrase: String = BackupBed.passphrase) throws {
        try Backup(at: backup, for: .backup)
            .renewKeybag(of: keybag, passphrase: secret(passphrase), iterations: TestKeybag.iterations)
    }

    func open(passphrase: String = BackupBed.passphrase) throws -> OpenedBackup {
        try Backup(at: backup, for: .restore).open(passphrase: secret(passphrase))
    }

    /// Restores into a directory of that name.
    @discardableResult
    func restore(
        to name: String = "target", _ mode: RestorePass.Mode = .new, _ selection: [FilePath] = []
    ) throws -> Results {
        let collected = Collected()
        let held = try Backup(at: backup, for: .restore)
        let opened = try held.open(passphrase: secret(Self.passphrase))
        let pass = try RestorePass(held, opened, into: restorer.keybag, mode)
        try pass.run(selection, to: target(name)) { collected.add($0) }
        return collected.results
    }

    /// A directory to restore to.
    func target(_ name: String = "target") -> FilePath { restorer.scratchPath.appending(name) }

    /// Where the file of that name in the bed's directory is after a restore.
    func restored(_ file: String, in name: String = "target") throws -> FilePath {
        target(name).appending(root.components).appending(file)
    }

    /// Where its copy is.
    func copy(_ file: String) throws -> FilePath {
        backup.appending("files").appending(root.components).appending(file)
    }

    /// Where an earlier copy of it is, if one was kept.
    func earlier(_ file: String) throws -> FilePath {
        backup.appending("earlier").appending(root.components).appending(file)
    }

    /// The plaintext of a restored file, by the restorer's keybag.
    func text(_ path: FilePath) throws -> [UInt8] {
        let file = try ProtectedFile.open(path, keybag: restorer.keybag)
        return try file.bytes(at: 0, count: Int(try file.size()))
    }

    /// Nothing of the old machine is left: neither its keys in the ring, nor its keybag, nor its device key.
    func destroySource() throws {
        try keybag.evictEverything()
        try bed.bag.deviceKey.remove()
        try keybag.directory.remove()
        try bed.directory.remove()
    }
}
