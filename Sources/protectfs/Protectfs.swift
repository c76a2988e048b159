import ArgumentParser
import DataProtection
import Glibc

/// The command. Each verb is a file of its own.
@main
struct Protectfs: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "protectfs",
        abstract: "Encrypt files so that they open only in the lock states of their protection class.",
        discussion: """
            Start with: protectfs init. The manual: man protectfs

            Classes: complete (opens only while unlocked), unless-open (can be created at any time, opens only while \
            unlocked), first-unlock (opens after the first unlock since the machine started), none (opens at any time on \
            this machine).

            Silent on success. Exit status: 0 done, 64 usage, 65 damaged or not protected, 66 no such file or keybag, \
            69 no kernel keyring, 70 a bug, 71 the system refused, 73 exists already, 74 disk or I/O, 75 not now (locked, \
            throttled, busy), 76 server not trusted, 77 refused, 78 bad configuration, 126 and 127 from run as from env(1), 130 interrupted.
            """,
        version: "0.1.0",
        subcommands: [
            Init.self, Unlock.self, Lock.self, Status.self, Wait.self, Watch.self, Agent.self, Protect.self,
            Unprotect.self, Upgrade.self, Write.self, Cat.self, Edit.self, Run.self, Ls.self, Class.self, Import.self,
            Export.self, Passcode.self, Rotate.self, Recovery.self, BackUp.self, Restore.self, Erase.self, Queue.self,
            Verify.self, Repair.self, Inspect.self, Explain.self, Doctor.self, CheckConformance.self, Password.self,
            SecretCommand.self, DownloadCommand.self, Mount.self, Unmount.self,
        ])

    static func main() {
        ProcessHardening.apply()
        CommandEnd.leaveWithoutArguments()
        do {
            var command = try parseAsRoot(
                LongArgumentLists.shortened(Run.withoutCommand(CommandLine.arguments.dropFirst())))
            Keybag.clearRemnants()
            if command is any DownloadVerb { throw SiblingProgram.become("protectfs-download", rawWords(from: 2)) }
            if command is any SecretVerb { throw SiblingProgram.become("protectfs-secrets", rawWords(from: 2)) }
            try command.run()
        } catch {
            CommandEnd.leave(self, because: error)
        }
    }

    /// The arguments as they came, byte for byte.
    private static func rawWords(from first: Int) -> [[UInt8]] {
        (first..<max(first, Int(CommandLine.argc))).compactMap { index in
            CommandLine.unsafeArgv[index].map { Array(UnsafeRawBufferPointer(start: $0, count: strlen($0))) }
        }
    }
}
