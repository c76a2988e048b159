import DataProtection
import Foundation

@testable import DataProtection

/// Backups of a sandbox, at little cost.
extension CommandSandbox {
    static let passphrase = "a passphrase for a backup in tests"

    /// Makes `backup` with the class keys of the keybag, which is unlocked, under the fewest iterations that a reader accepts.
    func makeBackup() throws {
        try Backup(at: FilePath(path("backup")), for: .backup)
            .makeKeybag(of: Keybag(at: FilePath(keybagDirectory)), passphrase: Self.secretPassphrase, iterations: 1000)
    }

    private static var secretPassphrase: SecretBytes {
        SecretBytes(byteCount: passphrase.utf8.count) { $0.copyBytes(from: passphrase.utf8) }
    }

    /// Another keybag of this sandbox, unlocked, to restore under.
    func makeOtherKeybag() throws -> String {
        let other = path("other")
        try makeKeybag(in: other)
        let done = try run(
            "unlock", "--keybag", other, "--passcode-fd", "3", passcodes: Data(Self.passcode.utf8))
        guard done.status == 0 else { throw Unexpected(done.errors) }
        return other
    }

    /// Restores `backup` to a directory of that name.
    func restore(to target: String, _ options: String..., keybag: String, passphrase: String = passphrase) throws
        -> Finished
    {
        try run(
            ["restore", "backup", "--to", target, "--keybag", keybag, "--passphrase-fd", "3"] + options,
            passcodes: Data(passphrase.utf8))
    }

    /// Where a file of the sandbox is below a restore's target.
    func restored(_ name: String, in target: String) throws -> String {
        path(target) + (try FilePath(root).resolved().string) + "/" + name
    }
}
