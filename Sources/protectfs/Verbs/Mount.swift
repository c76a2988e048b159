import ArgumentParser
import DataProtection
import Glibc

/// Starts the program that serves a mount.
struct Mount: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount",
        abstract: "Show a directory of protected files to other programs as plaintext.",
        discussion: """
            Every program of yours can read the files below POINT while their class can be opened, and sees names, \
            sizes and times in every lock state. The mount stays while locked: locked files then fail with \
            "Required key not available". Files that are not protected are shown as they are. Other users, root \
            included, see nothing.

            The mount is read-only unless --read-write is given. Then programs create and change files too, also \
            by replacing them. New files get the class that the directory gives them. What write(2) has \
            acknowledged survives a crash once the program has closed the file or called fsync(2).

            POINT is an empty directory outside DIR. It stays read-only when it is unmounted.
            """)

    @Argument(help: "The directory with the protected files.", completion: .directory)
    var directory: PathArgument
    @Argument(help: "Where to show the plaintext.", completion: .directory)
    var point: PathArgument
    @Flag(help: "Let programs create and change files.")
    var readWrite = false
    @Flag(help: "Serve the mount in this process until it is unmounted.")
    var foreground = false
    @OptionGroup var keybag: KeybagOption

    private static let program = "protectfs-mount"

    func run() throws {
        // Said here, where a person waits for it.
        let opened = try keybag.open()
        let places = try [opened.directory, directory.path, point.path].map { try $0.absolute() }
        let words = (readWrite ? [Array("--read-write".utf8)] : []) + places.map(\.bytes)
        if foreground { throw SiblingProgram.become(Self.program, words) }
        let path = try SiblingProgram.path(Self.program)
        let server = try StartedProgram(path, words: [Array("--background".utf8)] + words)
        var byte: UInt8 = 0
        while read(server.output, &byte, 1) < 0, errno == EINTR {}
        guard byte == 0 else { return server.leave() }
        // It has said what went wrong.
        throw ExitStatus(rawValue: server.end()) ?? .bug
    }
}
