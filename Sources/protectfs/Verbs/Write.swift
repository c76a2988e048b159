import ArgumentParser
import DataProtection
import Glibc

/// Standard input into a protected file.
struct Write: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "write", abstract: "Write standard input to a protected file.",
        discussion: """
            The file appears whole when the input ends, or not at all. Without --class it gets the class of the file \
            that it replaces unless that is none, else the default of its directory, else default-class of the \
            configuration, else complete.

            With --append each piece of the input is on disk before the next one is read. An unless-open or \
            first-unlock file can be written through a lock. With a complete file a lock ends the command with exit \
            status 75, and a warning says how much was written.

            With --raise-to a new file gets the stronger class when it is closed, or at the next unlock if the \
            keybag is locked then. For data that arrives while locked: --class unless-open --raise-to complete

            With --append --segments an unless-open log can be written in every state. While it cannot be opened, \
            the input goes to FILE.segment-1 and so on. They are appended to FILE after the next unlock: protectfs \
            queue
            """)

    @Argument(help: "The file to write.")
    var file: PathArgument
    @Option(name: .customLong("class"), help: "The class of the file.")
    var protectionClass: ProtectionClass?
    @Option(help: ArgumentHelp("Raise a new file to this class once it is written.", valueName: "class"))
    var raiseTo: ProtectionClass?
    @Flag(help: "Append to the file, or create it.")
    var append = false
    @Flag(help: "With --append: while the file is locked or in use, write to a segment that is appended later.")
    var segments = false
    @Flag(help: "Allow --class to be weaker than the class of the replaced file.")
    var allowWeaker = false
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if file.isOfDirectory { throw ValidationError("\(quoted(file.path)) is written as a directory") }
        if segments && !append { throw ValidationError("--segments needs --append") }
        if segments && raiseTo != nil {
            throw ValidationError("a log with --segments stays unless-open: no --raise-to")
        }
        if segments, let protectionClass, protectionClass != .completeUnlessOpen {
            throw ValidationError("a log with --segments is unless-open, not \(protectionClass.shortName)")
        }
        if let protectionClass, let raiseTo, raiseTo < protectionClass {
            throw ValidationError("--raise-to \(raiseTo.shortName) is weaker than --class \(protectionClass.shortName)")
        }
    }

    func run() throws {
        Interruption.watch()
        let path = try file.stored(followsLast: append)
        // The note of a segment has the name of its log, which leads to the mount and not to the stored file.
        if segments, path.isBelowDescriptor {
            throw Failure(
                .refused, "\(quoted(path)) is in a mount, where a log has no segments",
                hint: "append to it without --segments, or unmount it")
        }
        if append {
            try Append(
                path: path, protectionClass: protectionClass, raiseTo: raiseTo, inSegments: segments,
                keybags: Keybags(keybag)
            ).run()
        } else {
            try replace(path)
        }
    }

    private func replace(_ path: FilePath) throws {
        let writer = try Keybags(keybag).replacing(path) { keybag throws(DataProtectionError) in
            try ProtectedFileWriter(
                path, as: protectionClass, raiseTo: raiseTo, keybag: keybag, allowsWeaker: allowWeaker)
        }
        let input = StandardInput(pieceSize: 1 << 20)
        let progress = Progress("writing", total: StandardInput.size, isTyped: isatty(0) == 1)
        var done: Int64 = 0
        while true {
            guard let piece = try input.fullPiece() else {
                throw Failure(.interrupted, "interrupted; \(quoted(path)) is unchanged")
            }
            if piece.isEmpty { break }
            try writer.append(piece)
            done += Int64(piece.count)
            progress.show(done)
        }
        try writer.finish()
    }
}
