import ArgumentParser
import DataProtection
import Glibc

/// A program that copies protected files as they are stored.
struct Raw: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "raw", abstract: "Run a command where a mount hides the stored files.",
        usage: "protectfs raw <dir> -- <command> [<argument> ...]",
        discussion: """
            The command runs in the directory with the stored files, which a mount over the directory hides: for \
            programs that copy them without decrypting them, such as rsync and tar. Give it paths that are relative to \
            that directory; an absolute path leads into the mount.

            The command replaces protectfs, with its process id and exit status. The exit status is 127 if there is \
            no such command, and 126 if it cannot be run.
            """)

    @Argument(help: "The directory, or one in it.", completion: .directory)
    var directory: PathArgument

    func validate() throws {
        if ReplacingCommand.given() == nil { throw ValidationError("there is no command: write it after --") }
    }

    func run() throws {
        guard let command = ReplacingCommand.given() else { return }
        let stored = try directory.stored()
        guard stored.withPlatformString({ chdir($0) }) == 0 else {
            throw DataProtectionError.system(directory.path, operation: "chdir", .current)
        }
        unsetenv("PWD")  // it names the directory that this process was in
        try command.become()
    }
}
