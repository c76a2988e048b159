import ArgumentParser
import DataProtection
import Glibc

/// Copies protected files as they are stored, with the class keys that open them anywhere.
struct BackUp: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Back up protected files with their keys, even while locked.",
        usage: """
            protectfs backup --to DIR [--delete] [--json] PATH…
                   protectfs backup --to DIR --new-keybag [PATH…]
            """,
        discussion: """
            The first backup needs an unlocked keybag. It asks twice for a passphrase, and stores the class keys in \
            DIR under it. The passphrase alone opens the backup, on any machine: choose a long one.

            Later backups ask for nothing and work in every lock state. Files are copied as they are stored; \
            unchanged files are skipped. Files that are not protected are left out, with a warning.

            After protectfs rotate, add the new class keys with --new-keybag. To get files back: protectfs restore
            """)

    @Option(
        name: .customLong("to"),
        help: ArgumentHelp("The backup directory. It is created if it does not exist.", valueName: "dir"),
        completion: .directory)
    var directory: PathArgument
    @Argument(help: "Files and directories. Directories are copied recursively, on the same file system.")
    var paths: [PathsArgument] = []
    @Flag(help: "After a rotation: add the new class keys. Asks for the backup's passphrase.")
    var newKeybag = false
    @Flag(help: "Delete from the backup files that no longer exist in the named directories, and deleted secrets.")
    var delete = false
    @Flag(help: "Print JSON: every file, and a summary.")
    var json = false
    @OptionGroup var passphrase: PassphraseOption
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybag = try keybag.open()
        // Before anybody types, and before anything is made.
        let roots = try paths.stored()
        let directory = try directory.stored()
        for root in roots { _ = try NamedItem(following: root) }
        if roots.isEmpty, !newKeybag, (try? Backup(at: directory, for: .restore)) != nil {
            throw Failure(.usage, "name files or directories to back up", hint: "protectfs backup --help")
        }
        if newKeybag || !NamedItem.exists(directory.appending("keybag")) {
            try AttemptedOperation.backUp.requireUnlocked(keybag)
        }
        let backup = try Backup(at: directory, for: .backup, warn: ProtectionWarning.print)
        try makeKeybag(of: keybag, in: backup)
        let pass = try BackupPass(keybag, into: backup, removesDeleted: delete)
        Interruption.watch()
        let report = BackupReport(.backup, isJSON: json, total: isatty(2) == 1 ? BackupReport.bytes(below: roots) : 0)
        pass.run(roots, while: Interruption.goesOn) { report.add($0) }
        if Interruption.goesOn() {
            report.add { try SecretsProgram(keybag: keybag).copy(into: backup, removingDeleted: delete) }
        }
        try report.finish()
    }

    private func makeKeybag(of keybag: Keybag, in backup: Backup) throws {
        if try !backup.hasKeybag() {
            let secret = try passphrase.readNew()
            PassphraseOption.noteWait()
            try backup.makeKeybag(of: keybag, passphrase: secret)
        } else if newKeybag {
            let secret = try passphrase.read()
            PassphraseOption.noteWait()
            try backup.renewKeybag(of: keybag, passphrase: secret)
        } else if passphrase.descriptor != nil {
            throw Failure(
                .usage, "\(quoted(backup.path)) has the class keys already, so no passphrase is needed",
                hint: "to store new class keys: --new-keybag")
        }
    }
}

extension AttemptedOperation {
    /// One error before anything is asked or done.
    func requireUnlocked(_ keybag: Keybag) throws(DataProtectionError) {
        let status = try keybag.status()
        guard status.state == .unlocked else {
            throw .because(
                KeybagFailure.locked(
                    path: keybag.directory, .complete, self, state: status.state, since: status.lastTransition))
        }
    }
}
