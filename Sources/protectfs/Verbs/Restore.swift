import ArgumentParser
import DataProtection
import Glibc

/// Brings files of a backup back, on any machine.
struct Restore: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Restore files from a backup, under your own keybag.",
        discussion: """
            Asks for the backup's passphrase. Works on any machine and for any user. You need an unlocked keybag of \
            your own: protectfs init. The passcode and device key of the keybag that was backed up are not needed.

            The file /home/ann/letter becomes TARGET/home/ann/letter. Each file is read from beginning to end before \
            it gets its name. A damaged file is reported, and the others are restored. If a restore is interrupted, \
            run it again to continue.
            """)

    @Argument(help: "The backup directory.", completion: .directory)
    var directory: PathArgument
    @Argument(help: "Original paths of the files to restore (default: all files).")
    var paths: [PathsArgument] = []
    @Option(
        name: .customLong("to"),
        help: ArgumentHelp("The directory to restore into. It is created if it does not exist.", valueName: "target"),
        completion: .directory)
    var target: PathArgument
    @Flag(help: "Replace existing files.")
    var replace = false
    @Flag(help: "Check that everything in the backup opens. Restore nothing.")
    var dryRun = false
    @Flag(help: "Print JSON: every file, and a summary.")
    var json = false
    @OptionGroup var passphrase: PassphraseOption
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if replace, dryRun { throw ValidationError("--replace cannot be used with --dry-run") }
    }

    func run() throws {
        let keybag = try keybag.open()
        try AttemptedOperation.restore.requireUnlocked(keybag)
        let directory = try directory.stored()
        let backup = try Backup(at: directory, for: .restore)
        let secret = try passphrase.read()
        PassphraseOption.noteWait()
        let opened = try backup.open(passphrase: secret)
        let pass = try RestorePass(
            backup, opened, into: keybag, dryRun ? .onlyTrying : replace ? .replacing : .new)
        Interruption.watch()
        let files = [directory.appending("files")]
        let report = BackupReport(
            dryRun ? .trial : .restore, isJSON: json,
            total: isatty(2) == 1 && paths.isEmpty ? BackupReport.bytes(below: files) : 0)
        try pass.run(paths.paths, to: target.stored(), while: Interruption.goesOn) { report.add($0) }
        if paths.isEmpty, Interruption.goesOn() {
            let options = (replace ? ["--replace"] : []) + (dryRun ? ["--dry-run"] : [])
            report.add { try SecretsProgram(keybag: keybag).restore(from: backup, opened, options) }
        }
        try report.finish()
    }
}
