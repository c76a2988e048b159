import ArgumentParser
import DataProtection
import RNCryptorFormat

/// `rncryptor seal`: a protected file into a message of RNCryptor.
struct RNCryptorSeal: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "seal", abstract: "Decrypt a protected file into an RNCryptor file.",
        discussion: """
            Use it only to exchange files with software that supports nothing better. The RNCryptor file, of version \
            3, is an ordinary file with mode 0600, which no lock closes. Its password can be guessed fast, because \
            the format has only 10,000 rounds of PBKDF2-SHA1. Keys (--key-fd) do not have this weakness. The file \
            appears whole or not at all.
            """)

    @Argument(help: "The protected file.")
    var file: PathArgument
    @Option(help: .hidden)  // of the old verb: export
    var format: MessageFormat?
    @Option(
        name: [.customShort("o"), .customLong("output")],
        help: ArgumentHelp(
            "The file to write; - is standard output (default: the file's name with .rncryptor appended).",
            valueName: "file"))
    var output: PathArgument?
    @Flag(help: "Replace an existing file.")
    var replace = false
    @OptionGroup var secret: MessageSecretOption
    @OptionGroup var keybag: KeybagOption

    private var isToStandardOutput: Bool { output?.path == "-" }

    func validate() throws {
        if isToStandardOutput, replace { throw ValidationError("standard output replaces nothing: no --replace") }
    }

    func run() throws {
        let path = try file.stored()
        if isToStandardOutput, StandardOutput.isTerminal {
            throw Failure(.usage, "an RNCryptor file is no text for a terminal", hint: "name a file: -o FILE")
        }
        let before = FileVersion(path, following: true)
        let file = try Keybags(keybag).reading(path) { keybag throws(DataProtectionError) in
            try ProtectedFile.open(path, keybag: keybag)
        }
        let target = isToStandardOutput ? nil : try writer()
        if !secret.isOfKeys {
            StandardError.line(
                .warning,
                "RNCryptor's 10,000 rounds of PBKDF2-SHA1 are weak: who has the file can try passwords fast; "
                    + "prefer protected files")
        }
        let sealer = try sealer()
        Interruption.watch()
        try seal(file, sealer) { bytes in
            if let target { try target.append(bytes) } else { try StandardOutput.write(bytes) }
        }
        try file.close()
        // A second writer may have committed in between: the message would be of neither state.
        guard before == FileVersion(path, following: true) else { throw DataProtectionError.busy(path) }
        do throws(DataProtectionError) { try target?.finish() } catch { throw Failure(replaceable: error) }
    }

    private func writer() throws(Failure) -> OrdinaryFileWriter {
        let path = output?.path ?? FilePath(bytes: file.path.bytes + Array(".rncryptor".utf8))
        do throws(DataProtectionError) {
            return try OrdinaryFileWriter(StoredPlace.of(path, followsLast: false), replacing: replace)
        } catch {
            throw Failure(replaceable: error)
        }
    }

    private func sealer() throws(Failure) -> RNCryptorSealer {
        let secret = try secret.readNew()
        do throws(RNCryptorError) { return try RNCryptorSealer(secret) } catch {
            throw error.failure(quoted(file.path))
        }
    }

    private func seal(
        _ file: ProtectedFile, _ sealer: consuming RNCryptorSealer, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let size = try file.size()
        let progress = Progress("sealing", total: size)
        let buffer = PlaintextBuffer(count: 1 << 20)
        let sealed = PlaintextBuffer(count: buffer.bytes.count + RNCryptorSealer.slack)
        try sealer.header.withUnsafeBytes(body)
        var done: Int64 = 0
        while case let count = try file.read(into: buffer.bytes, at: done), count > 0 {
            if Interruption.isRequested { throw Failure(.interrupted, "interrupted; no file was written") }
            let message: Int
            do throws(RNCryptorError) {
                message = try sealer.seal(buffer.prefix(count), into: sealed.bytes)
            } catch {
                throw error.failure(quoted(file.path))
            }
            try body(sealed.prefix(message))
            done += Int64(count)
            progress.show(done)
        }
        let end: [UInt8]
        do throws(RNCryptorError) { end = try sealer.finish() } catch { throw error.failure(quoted(file.path)) }
        try end.withUnsafeBytes(body)
    }
}
