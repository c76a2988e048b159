import Foundation
import ProtectionKeys
import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// What the library writes, Tests/IndependentReader/read.py reads: it was written from FORMAT.md and knows no Swift.
@Suite struct IndependentReaderTests {
    static let folder = FilePath(#filePath).removingLastComponent().removingLastComponent()
        .appending("IndependentReader")

    /// What a program said, and how it ended.
    struct Answer {
        let output: [UInt8]
        let error: String
        let status: Int32

        var text: String { String(decoding: output, as: UTF8.self) }
    }

    /// Runs python3 with `input` to read on descriptor 0.
    static func python(_ arguments: [String], input: String = "") throws -> Answer {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = ["-B"] + arguments
        let (stdin, stdout, stderr) = (Pipe(), Pipe(), Pipe())
        (process.standardInput, process.standardOutput, process.standardError) = (stdin, stdout, stderr)
        try process.run()
        try stdin.fileHandleForWriting.write(contentsOf: Data(input.utf8))
        try stdin.fileHandleForWriting.close()
        let output = try stdout.fileHandleForReading.readToEnd() ?? Data()
        let error = try stderr.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Answer(
            output: Array(output), error: String(decoding: error, as: UTF8.self), status: process.terminationStatus)
    }

    /// Whether there is a Python with the package `cryptography`; if not, says so.
    static let hasPython: Bool = {
        let answer = try? python(["-c", "import cryptography"])
        if answer?.status == 0 { return true }
        print("IndependentReaderTests skipped: python3 with the package cryptography is not here")
        return false
    }()

    static func read(
        _ files: [FilePath], _ bag: TestKeybag, passcode: String = TestKeybag.passcode, by program: String = "read.py"
    ) throws -> Answer {
        let words = ["--keybag", bag.directory.string, "--device-key", bag.deviceKey.string] + files.map(\.string)
        return try python([folder.appending(program).string] + words, input: passcode + "\n")
    }

    /// For each file: class, origin, generation, number of redo records in force, size.
    static func list(_ files: [FilePath], _ bag: TestKeybag) throws -> [[String]] {
        try read(files, bag, by: "listing.py").text.split(separator: "\n").map { line in
            line.split(separator: " ").map(String.init)
        }
    }

    /// What it is for: a stranger writes, or checks, such a reader in an evening.
    @Test func isSmall() throws {
        let lines = try ["keybag.py", "read.py"].map { name in
            try Self.folder.appending(name).contents().count { $0 == UInt8(ascii: "\n") }
        }
        #expect(lines.reduce(0, +) <= 300)
    }

    /// A file that the library wrote, and what must be in it.
    private struct Written {
        let path: FilePath
        let protectionClass: ProtectionClass
        let text: [UInt8]
    }

    private static let sizes = [0, 1, 100, 3584, 3585, 4095, 4096, 4097, 8192, 12_289, 65_536, 65_537, 200_000]

    /// A file written whole.
    private func whole(
        _ bed: FileTestBed, _ name: String, _ protectionClass: ProtectionClass, _ random: inout SeededGenerator
    ) throws -> Written {
        let size = Self.sizes.randomElement(using: &random)!
        let text = pattern(UInt64.random(in: 1...1000, using: &random), count: size)
        let path = try bed.makeWhole(name, protectionClass, text, isSmall: Bool.random(using: &random))
        return Written(path: path, protectionClass: protectionClass, text: text)
    }

    /// A file changed at random through a handle, which stays open: the last commits may still be redo records.
    private func changed(
        _ file: ProtectedFile, _ protectionClass: ProtectionClass, _ random: inout SeededGenerator
    ) throws -> Written {
        var text: [UInt8] = []
        for _ in 0..<Int.random(in: 1...12, using: &random) {
            let size = Self.sizes.randomElement(using: &random)! / Int.random(in: 1...3, using: &random)
            if Int.random(in: 0..<4, using: &random) == 0 {
                try file.truncate(to: Int64(size))
                text = Array(text.prefix(size)) + [UInt8](repeating: 0, count: max(0, size - text.count))
            } else {
                let offset = Int.random(in: 0...text.count + 5000, using: &random)
                let bytes = pattern(UInt64.random(in: 1...1000, using: &random), count: min(size, 20_000))
                try file.write(bytes, at: UInt64(offset))
                if !bytes.isEmpty {
                    text += [UInt8](repeating: 0, count: max(0, offset + bytes.count - text.count))
                    text.replaceSubrange(offset..<offset + bytes.count, with: bytes)
                }
            }
            if Bool.random(using: &random) { try file.sync() }
        }
        try file.sync()
        return Written(path: file.path, protectionClass: protectionClass, text: text)
    }

    @Test(.enabled(if: hasPython)) func readsWhatTheLibraryWrote() throws {
        let bed = try FileTestBed()
        var random = Effort.generator("IndependentReaderTests", 0x1AD)
        var written: [Written] = []
        var open: [ProtectedFile] = []
        for protectionClass in ProtectionClass.allCases {
            for index in 0..<Effort.count(12, 100) {
                let name = "\(protectionClass.shortName)-\(index)"
                if index % 3 == 0 {
                    written.append(try whole(bed, name, protectionClass, &random))
                    continue
                }
                let file = try ProtectedFile.create(bed.path(name), as: protectionClass, keybag: bed.keybag)
                written.append(try changed(file, protectionClass, &random))
                if index % 3 == 1 { try file.close() } else { open.append(file) }
            }
        }
        let answer = try Self.read(written.map(\.path), bed.bag)
        #expect(answer.error == "")
        #expect(answer.status == 0)
        var rest = answer.output[...]
        for file in written {
            #expect(rest.prefix(file.text.count) == file.text[...], "\(file.path.lastComponent!)")
            rest = rest.dropFirst(file.text.count)
        }
        #expect(rest.isEmpty)

        let lines = try Self.list(written.map(\.path), bed.bag)
        try #require(lines.count == written.count)
        var pending = 0
        for (words, file) in zip(lines, written) {
            #expect(words[0] == file.protectionClass.shortName)
            #expect(words[1] == "verified")
            #expect(words[4] == "\(file.text.count)")
            pending += Int(words[3])!
        }
        #expect(pending > 0, "some files have redo records in force")
        for file in open { try file.close() }
        try bed.keybag.evictEverything()
    }

    @Test(.enabled(if: hasPython)) func readsWhatChangedItsClass() throws {
        let bed = try FileTestBed()
        let text = pattern(7, count: 9000)
        var paths: [FilePath] = []
        for old in ProtectionClass.allCases {
            for new in ProtectionClass.allCases {
                let path = try bed.make("\(old.shortName)-\(new.shortName)", old, text)
                try bed.keybag.setProtection(new, ofItemAt: path)
                paths.append(path)
                #expect(try Self.list([path], bed.bag).first?.first == new.shortName)
            }
        }
        let answer = try Self.read(paths, bed.bag)
        #expect(answer.output == Array(repeatElement(text, count: paths.count).joined()))
        try bed.keybag.evictEverything()
    }

    /// Under retired class keys, active ones, and a new file key; then without the retired ones.
    @Test(.enabled(if: hasPython)) func readsWhatWasRotated() throws {
        let bed = try FileTestBed()
        let text = pattern(8, count: 9000)
        var (old, new): ([FilePath], [FilePath]) = ([], [])
        for protectionClass in ProtectionClass.allCases {
            let names = ["left", "rewrapped", "rekeyed"].map { "\($0)-\(protectionClass.shortName)" }
            old.append(try bed.make(names[0], protectionClass, text))
            new += try names.dropFirst().map { try bed.make($0, protectionClass, text) }
        }
        try bed.bag.rotate()
        for (index, path) in new.enumerated() {
            if index % 2 == 0 { try bed.keybag.rewrap(fileAt: path) } else { try bed.keybag.rekey(fileAt: path) }
        }
        let all = try Self.read(old + new, bed.bag)
        #expect(all.output == Array(repeatElement(text, count: 12).joined()) && all.error == "")
        let verdicts = try Self.list(old + new, bed.bag)
        #expect(verdicts.count == 12 && verdicts.allSatisfy { $0[1] == "verified" })
        try bed.bag.forgetRetired()
        #expect(try Self.read(new, bed.bag).output == Array(repeatElement(text, count: 8).joined()))
        for path in old { #expect(try Self.read([path], bed.bag).status != 0) }
    }

    /// Before the retired keys are forgotten, and afterwards.
    @Test(
        "With keybag, passcode, device key and recovery code of before a rotation nothing opens, at no place of a file",
        .enabled(if: hasPython))
    func anOldKeybagOpensNothing() throws {
        let bed = try FileTestBed()
        let code = try bed.bag.makeRecoveryCode()
        let paths = try ProtectionClass.allCases.flatMap { protectionClass in
            let name = protectionClass.shortName
            return [
                try bed.make("\(name)-handle", protectionClass, [1, 2]),
                try bed.makeWhole("\(name)-whole", protectionClass, [3], isSmall: true),
            ]
        }
        let saved = try bed.bag.savedCopy()
        let program = Self.folder.appending("attack.py").string
        let device = (["--device-key", bed.bag.deviceKey.string, "--passcode-fd", "0"], TestKeybag.passcode)
        let recovery = (["--recovery-code-fd", "0"], code.shown())
        func finds(with opened: ([String], String), in files: [FilePath]) throws -> Int {
            let answer = try Self.python(
                [program, "--keybag", saved.string] + opened.0 + files.map(\.string), input: opened.1 + "\n")
            #expect(answer.error == "" && answer.status == 0)
            return answer.text.split(separator: "\n").count
        }
        // Files written through a handle have two heads, those written whole one.
        #expect(try finds(with: device, in: paths) == 12, "it finds what there is")
        #expect(try finds(with: recovery, in: Array(paths[..<2])) == 3, "by the recovery code too")
        try bed.bag.rotate()
        #expect(try finds(with: device, in: paths) == 12, "new keys alone do nothing for files")
        for path in paths { try bed.keybag.rewrap(fileAt: path) }
        #expect(try finds(with: device, in: paths) == 0)
        try bed.bag.forgetRetired()
        #expect(try finds(with: recovery, in: paths) == 0)
        for path in paths {
            let answer = try Self.python(
                [Self.folder.appending("read.py").string, "--keybag", saved.string]
                    + ["--device-key", bed.bag.deviceKey.string, path.string], input: TestKeybag.passcode + "\n")
            #expect(answer.status == 65 && answer.error.contains("key lost") && answer.output.isEmpty)
        }
    }

    /// Before first unlock there is no class key C: the device key vouches.
    @Test(.enabled(if: hasPython)) func readsWhatWasMadeBeforeFirstUnlock() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let paths = [
            try bed.makeWhole("b", .completeUnlessOpen, [1, 2, 3]), try bed.makeWhole("d", .none, [4, 5]),
        ]
        #expect(try Self.read(paths, bed.bag).output == [1, 2, 3, 4, 5])
        let lines = try Self.list(paths, bed.bag).map { $0.joined(separator: " ") }
        #expect(lines == ["unless-open this-device 1 0 3", "none this-device 1 0 2"])
    }

    @Test(.enabled(if: hasPython)) func readsUnderAChangedPasscode() throws {
        let bed = try FileTestBed()
        let path = try bed.makeWhole("f", .complete, [1, 2, 3])
        try bed.keybag.changePasscode(from: secret(TestKeybag.passcode), to: secret("another one"), iterations: 1000)
        #expect(try Self.read([path], bed.bag, passcode: "another one").output == [1, 2, 3])
        let answer = try Self.read([path], bed.bag)
        #expect(answer.status == 65 && answer.error.contains("wrong passcode") && answer.output.isEmpty)
    }

    /// A, B, C and D: the code alone is enough, without the device key and without the passcode.
    @Test(.enabled(if: hasPython)) func readsWithTheRecoveryCodeAlone() throws {
        let bed = try FileTestBed()
        let code = try bed.bag.makeRecoveryCode()
        let paths = try ProtectionClass.allCases.map { try bed.makeWhole($0.shortName, $0, [$0.rawValue]) }
        let program = Self.folder.appending("read.py").string
        let fixed = [program, "--keybag", bed.bag.directory.string, "--recovery-code"]
        func read(_ code: String) throws -> Answer { try Self.python(fixed + paths.map(\.string), input: code + "\n") }
        #expect(try read(code.shown()).output == ProtectionClass.allCases.map(\.rawValue))
        #expect(try read(code.shown().lowercased()).status == 0)
        let other = try read(RecoveryCode.random().shown())
        #expect(other.status == 65 && other.error.contains("wrong recovery code") && other.output.isEmpty)
        #expect(try read(String(code.shown().dropLast())).error.contains("typo"))
        let new = try bed.bag.recover(with: code)
        #expect(try read(new.shown()).output == ProtectionClass.allCases.map(\.rawValue))
    }

    @Test(.enabled(if: hasPython)) func refusesWhatWasAltered() throws {
        let bed = try FileTestBed()
        let path = try bed.makeWhole("f", .complete, [1, 2, 3])
        var bytes = try path.contents()
        bytes[100] ^= 1
        try path.overwrite(bytes)
        let answer = try Self.read([path], bed.bag)
        #expect(answer.status == 65 && answer.error.contains("damaged head") && answer.output.isEmpty)
    }

    /// As somebody else would hold their program against the vectors; the runner can say no.
    @Test(.enabled(if: hasPython)) func vectorsAreAKit() throws {
        let vectors = Self.folder.removingLastComponent().appending("ProtectionFormatTests/Vectors")
        let run = vectors.appending("run.py").string
        let judged = try Self.python([run, "/usr/bin/python3", "-B", vectors.appending("judge.py").string])
        #expect(judged.status == 0 && judged.text.contains(" 0 different"), "\(judged.text)\(judged.error)")
        let yes = try Self.python([run, "sh", "-c", "for file; do echo success; done"])
        #expect(yes.status == 1 && yes.text.contains("expected: damaged head"))
    }

    /// The page is the only input: formulas and values are in it.
    @Test("Every value of the worked example in FORMAT.md follows from its formula", .enabled(if: hasPython))
    func workedExample() throws {
        let program = Self.folder.appending("worked_example.py").string
        let right = try Self.python([program])
        #expect(right.status == 0 && right.error == "", "\(right.error)")
        #expect(right.text.hasSuffix(" of them computed\n"), "\(right.text)")

        let root = Self.folder.removingLastComponent().removingLastComponent()
        let page = String(decoding: try root.appending("docs/reference/FORMAT-EXAMPLE.md").contents(), as: UTF8.self)
        let plaintext = "48656c6c6f2c2070726f7465637466732e0a"
        try #require(page.contains(plaintext))
        let scratch = ScratchDirectory()
        let altered = scratch.path.appending("FORMAT-EXAMPLE.md")
        try altered.overwrite(Array(page.replacingOccurrences(of: plaintext, with: "49" + plaintext.dropFirst(2)).utf8))
        let wrong = try Self.python([program, "--page", altered.string])
        #expect(wrong.status == 1 && wrong.error.contains("note: text is \(plaintext)"), "\(wrong.error)")
    }

    /// Both generators find their committed vectors to be what they would make, and the reader agrees with `expect:`.
    @Test(.enabled(if: hasPython), arguments: ["ProtectionFormatTests", "ProtectionKeysTests"])
    func vectorsAreWhatTheirScriptMakes(folder: String) throws {
        let script = Self.folder.removingLastComponent().appending("\(folder)/Vectors/make-vectors.py")
        let answer = try Self.python([script.string, "check"])
        #expect(answer.text == "" && answer.error == "" && answer.status == 0)
    }
}
