import ArgumentParser
import DataProtection
import Glibc

/// A program that reads protected files from descriptors.
struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run a command with decrypted files as file descriptors.",
        usage: "protectfs run <file> ... [--keybag <dir>] -- <command> [<argument> ...]",
        discussion: """
            Each file is decrypted into memory, never to a disk. The command gets it as a read-only descriptor: 3, 4 \
            and so on, in the order of the files. In the arguments of the command, {1} stands for /dev/fd/3, {2} for \
            /dev/fd/4 and so on; {} is {1}. The command is not run unless all files can be opened.

            The command replaces protectfs, with its process id and exit status. The exit status is 127 if there is \
            no such command, and 126 if it cannot be run. The command makes no core dump. A lock cannot take the \
            plaintext back: lock reports the command, and lock --require-clean fails, until it and what it started \
            have ended.
            """)

    @Argument(help: "Protected files.")
    var files: [PathsArgument]
    @OptionGroup var keybag: KeybagOption

    private static let firstDescriptor: Int32 = 3

    func validate() throws {
        if ReplacingCommand.given() == nil { throw ValidationError("there is no command: write it after --") }
    }

    func run() throws {
        guard let words = ReplacingCommand.given()?.words else { return }
        let paths = try files.stored()
        let keybags = Keybags(keybag)
        let holders = PlaintextHolders(program: FilePath(bytes: words[0]).lastComponent?.string ?? "")
        let outcome = Outcome()
        var opened: [Opened] = []
        // Above all numbers that the files will have, so that placing one does not close another.
        let floor = Self.firstDescriptor + Int32(clamping: paths.count)
        for path in paths {
            do {
                opened.append(Opened(try SealedPlaintext(path, keybags, floor: floor, notedBy: holders)))
            } catch {
                outcome.record(error)
            }
        }
        try outcome.leave()
        try SealedPlaintext.ownDescriptors()
        holders.passOn(from: floor)
        for (index, file) in opened.enumerated() {
            try file.plaintext.place(at: Self.firstDescriptor + Int32(index))
        }
        // A note that went before the exec would not count.
        try withExtendedLifetime(holders) {
            try ReplacingCommand(
                words: words.enumerated().map { $0 == 0 ? $1 : Self.filledIn($1, count: paths.count) }
            ).become()
        }
    }

    private final class Opened {
        let plaintext: SealedPlaintext
        init(_ plaintext: consuming SealedPlaintext) { self.plaintext = plaintext }
    }

    /// `{}` and `{1}` are /dev/fd/3, `{2}` is /dev/fd/4; `{9}` without a ninth file is what it is.
    static func filledIn(_ word: [UInt8], count: Int) -> [UInt8] {
        var result: [UInt8] = []
        var rest = word[...]
        while let open = rest.firstIndex(of: UInt8(ascii: "{")) {
            result += rest[..<open]
            rest = rest[open...]
            if let (number, close) = braced(rest), (1...count).contains(number) {
                result += Array("/dev/fd/\(Int(firstDescriptor) + number - 1)".utf8)
                rest = rest[(close + 1)...]
            } else {
                result.append(rest.removeFirst())
            }
        }
        return result + rest
    }

    /// The number in the braces that `text` begins with, 1 if there is none, and where they close.
    private static func braced(_ text: ArraySlice<UInt8>) -> (number: Int, close: Int)? {
        guard let close = text.prefix(12).firstIndex(of: UInt8(ascii: "}")) else { return nil }
        let digits = text[text.startIndex..<close].dropFirst()
        if digits.isEmpty { return (1, close) }
        guard digits.first != UInt8(ascii: "0"), digits.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 })
        else {
            return nil
        }
        return Int(String(decoding: digits, as: UTF8.self)).map { ($0, close) }
    }
}
