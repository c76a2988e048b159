import ArgumentParser
import DataProtection
import RNCryptorFormat

/// `rncryptor open`: a message of RNCryptor into a protected file.
struct RNCryptorOpen: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open", abstract: "Decrypt an RNCryptor file into a protected file.",
        discussion: """
            Versions 2 and 3 are supported. The protected file appears when the whole message is verified, or not at \
            all. Without --class it gets the class that protectfs write would give it. A wrong password and an \
            altered message cannot be told apart: both have exit status 77.

            FILE may be a pipe, or - for standard input. What arrives is kept in a protected file without a name \
            until it is verified. With -o - the plaintext goes to standard output, after all of it is verified; FILE \
            must then be a regular file.
            """)

    @Argument(help: "The RNCryptor file; - is standard input.")
    var file: PathArgument
    @Option(
        name: [.customShort("o"), .customLong("output")],
        help: ArgumentHelp("The protected file to create; - prints plaintext to standard output.", valueName: "file"))
    var output: PathArgument
    @Option(help: .hidden)  // of the old verb: import
    var format: MessageFormat?
    @Option(name: .customLong("class"), help: "The class of the protected file.")
    var protectionClass: ProtectionClass?
    @Flag(help: "Replace an existing file.")
    var replace = false
    @Flag(help: "Allow --class to be weaker than the class of the replaced file.")
    var allowWeaker = false
    @OptionGroup var secret: MessageSecretOption
    @OptionGroup var keybag: KeybagOption

    private var isToStandardOutput: Bool { output.path == "-" }

    func validate() throws {
        if isToStandardOutput, protectionClass != nil || replace || allowWeaker {
            throw ValidationError("standard output is no protected file: no --class, --replace or --allow-weaker")
        }
        if file.path == "-", secret.reads(0) {
            throw ValidationError("the file and its password cannot both come from standard input")
        }
    }

    func run() throws {
        Interruption.watch()
        let source = try MessageSource(file.path)
        let buffer = PlaintextBuffer(count: RNCryptorOpener.longestPiece)
        defer { withExtendedLifetime(buffer) {} }
        if isToStandardOutput { try print(source, buffer.bytes) } else { try protect(source, buffer.bytes) }
    }

    private func print(_ source: MessageSource, _ buffer: UnsafeMutableRawBufferPointer) throws {
        guard source.isFile else {
            throw Failure(
                .usage, "\(source.name) can be read only once, and nothing is printed that is not verified",
                hint: "open it into a protected file with -o FILE, and print that: protectfs cat FILE")
        }
        let opening = try MessageOpening(source, through: buffer)
        try opening.open(with: secret.read(for: opening.header.kind, of: source.name)) { text in
            try StandardOutput.write(text)
        }
    }

    private func protect(_ source: MessageSource, _ buffer: UnsafeMutableRawBufferPointer) throws {
        let path = try output.stored(followsLast: false)
        // Everything that can be said before somebody types a password, or a pipe is read.
        if NamedItem.exists(path), !replace { throw Self.exists(path) }
        if source.isFile { _ = try MessageOpening(source, through: buffer) }
        let (keybag, writer) = try Keybags(keybag).replacing(path) { keybag throws(DataProtectionError) in
            let writer = try ProtectedFileWriter(
                path, as: protectionClass, keybag: keybag, replacing: replace, allowsWeaker: allowWeaker)
            return (keybag, writer)
        }
        try source.takeIn {
            try ProtectedSpool(beside: path, as: writer.protectionClass, keybag: keybag)
        } checking: { start in
            _ = try MessageOpening.header(in: start, of: source.name)
        }
        let opening = try MessageOpening(source, through: buffer)
        try opening.open(with: secret.read(for: opening.header.kind, of: source.name)) { text in
            try writer.append(text)
        }
        do throws(DataProtectionError) { try writer.finish() } catch .exists { throw Self.exists(path) }
    }

    private static func exists(_ path: FilePath) -> Failure {
        Failure(replaceable: DataProtectionError.exists(path))
    }
}
