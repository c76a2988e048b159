import ArgumentParser
import DataProtection

/// Starts the program that serves a mount, or lists the mounts.
struct Mount: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount",
        abstract: "Show a directory of protected files to other programs as plaintext.",
        discussion: """
            DIR itself shows the plaintext until it is unmounted. With POINT, an empty directory outside DIR, the \
            plaintext is shown there; POINT stays read-only when it is unmounted. Without arguments, the mounts are \
            listed, with the programs that use them.

            Every program of yours can read the files while their class can be opened, and sees names, sizes and \
            times in every lock state. The mount stays while locked: locked files then fail with "Required key not \
            available". Files that are not protected are shown as they are. Other users, root included, see nothing. \
            The verbs of protectfs work on the protected files also where a mount shows them.

            The mount is read-only unless --read-write is given. Then programs create and change files too, also \
            by replacing them. New files get the class that the directory gives them. What write(2) has \
            acknowledged survives a crash once the program has closed the file or called fsync(2).

            With --at-login, DIR is mounted now and at each login, by a unit of your own systemd.
            """)

    @Argument(help: "The directory with the protected files.", completion: .directory)
    var directory: PathArgument?
    @Argument(help: "Where to show the plaintext (default: in the directory itself).", completion: .directory)
    var point: PathArgument?
    @Flag(help: "Let programs create and change files.")
    var readWrite = false
    @Flag(help: "Serve the mount in this process until it is unmounted.")
    var foreground = false
    @Flag(help: "Mount the directory over itself at each login, too.")
    var atLogin = false
    @Flag(help: "Mount the directories of --at-login that are not mounted.")
    var all = false
    @Flag(help: "Print the list as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        let changes = readWrite || foreground || atLogin
        if all, directory != nil || changes || json {
            throw ValidationError("--all takes no directory and no other option")
        }
        if directory == nil, changes { throw ValidationError("name a directory") }
        if json, directory != nil { throw ValidationError("--json is for the list: name no directory") }
        if atLogin, point != nil || foreground {
            throw ValidationError("--at-login takes neither POINT nor --foreground")
        }
        if atLogin, keybag.isExplicit {
            throw ValidationError("--at-login is for the default keybag: set PROTECTFS_KEYBAG for another one")
        }
    }

    func run() throws {
        if all { return try MountList.mountAll(in: keybag.open().directory) }
        guard let directory else { return try MountReport.print(asJSON: json) }
        // Said here, where a person waits for it.
        let opened = try keybag.open()
        let server = MountServer(
            directory: directory.path, point: point?.path ?? directory.path, isReadOnly: !readWrite,
            keybag: opened.directory)
        if foreground { throw try server.become() }
        if atLogin { return try MountList.add(server) }
        try server.start()
    }
}
