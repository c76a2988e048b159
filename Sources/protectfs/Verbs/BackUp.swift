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
            The first time, while the keybag is unlocked, it asks twice for a passphrase, and stores the class keys under it \
            in DIR. Afterwards it asks for nothing, in every lock state: files are copied as they are stored, and those that \
            have not changed are left alone. Files that are not protected are left out.

            The passphrase opens everything in the backup, on any machine, without passcode and device key: take a long one. \
            After protectfs rotate, --new-keybag adds the new class keys. The way back: protectfs restore
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
    @Flag(help: "Delete files from the backup that no longer exist in the named directories.")
    var delete = false
    @Flag(help: "Print JSON: every file, and a summary.")
    var json = false
    @OptionGroup var passphrase: PassphraseOption
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybag = try keybag.open()
        // Before anybody types, and before anything is made.
        let roots = paths.paths
        for root in roots { _ = try NamedItem(following: root) }
        if roots.isEmpty, !newKeybag, (try? Backup(at: directory.path, for: .restore)) != nil {
            throw Failure(.usage, "name files or directories to back up", hint: "protectfs backup --help")
        }
        if newKeybag || !NamedItem.exists(directory.path.appending("keybag")) {
            try keybag.refuseLocked(for: .backUp)
        }
        let backup = try Backup(at: directory.path, for: .backup, warn: ProtectionWarning.print)
        try makeKeybag(of: keybag, in: backup)
        let pass = try BackupPass(keybag, into: backup, removesDeleted: delete)
        Interruption.watch()
        let report = BackupReport(.backup, isJSON: json, total: isatty(2) == 1 ? BackupReport.bytes(below: roots) : 0)
        pass.run(roots, while: Interruption.goesOn) { report.add($0) }
        if Interruption.goesOn() { report.add { try SecretsProgram(keybag: keybag).copy(into: backup) } }
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
                .usage, "\(quoted(backup.path)) has its class keys, and no passphrase is needed",
                hint: "to store them anew: --new-keybag")
        }
    }
}

extension Keybag {
    /// One error before anything is asked or done.
    func refuseLocked(for operation: Operation) throws(DataProtectionError) {
        let status = try status()
        guard status.state == .unlocked else {
            throw .locked(path: directory, .complete, operation, state: status.state, since: status.lastTransition)
        }
    }
}
