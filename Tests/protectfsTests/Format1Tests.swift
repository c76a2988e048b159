import Foundation
import Testing

/// What format 1 wrote when it was frozen opens for ever: Tests/Format1/example.tar.gz, which is never made anew.
@Suite(.serialized) struct Format1Tests {
    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    /// SHA-256 of the archive: who made it anew would have changed what has to open for ever.
    private static let sum = "ce009c1bde3c8f621ab9e8da3075d11c0eb85d1abb2171937323c0db631460c6"

    /// The example in a sandbox, its device key where a machine looks that has none at the place that the keybag names.
    final class Bed {
        let sandbox: CommandSandbox
        /// The UUID is the same in every run, and so are the names in the ring: one run at a time.
        private let turn: Int32

        init(hasDeviceKey: Bool = true) throws {
            turn = try Self.takeTurn("format1")
            sandbox = try CommandSandbox(makesKeybag: false, derivesForReal: true)
            let archive = Format1Tests.tests.appendingPathComponent("Format1/example.tar.gz").path
            let sum = try sandbox.shell("sha256sum < \"$0\"", [archive]).text.prefix(64)
            guard sum == Format1Tests.sum else { throw CommandSandbox.Unexpected("the example was altered: \(sum)") }
            let unpack = "tar --extract --file \"$0\" --strip-components 1 && mkdir -p state/protectfs"
            _ = try done(sandbox.shell(unpack, [archive]))
            if hasDeviceKey { _ = try done(sandbox.shell("cp -p device-key state/protectfs/")) }
        }

        /// The worked example of FORMAT.md, appendix A, in a sandbox: a program writes its files from the page.
        init(writtenBy program: String) throws {
            turn = try Self.takeTurn("worked-example")
            sandbox = try CommandSandbox(makesKeybag: false, derivesForReal: true)
            let place = "mkdir -p state/protectfs && cp -p device-key state/protectfs/"
            _ = try done(sandbox.shell("\(program) --write . && \(place)"))
        }

        /// - Returns: a descriptor that keeps other runs away until it is closed.
        private static func takeTurn(_ name: String) throws -> Int32 {
            let turn = open("/tmp/protectfs-\(name)-\(getuid()).lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            guard turn >= 0, flock(turn, LOCK_EX) == 0 else { throw CommandSandbox.Unexpected("no lock: \(errno)") }
            return turn
        }

        deinit {
            sandbox.evictKeys(of: sandbox.keybagDirectory)
            close(turn)
        }

        /// A command with the words of a file of the example on descriptor 3.
        @discardableResult
        func run(_ words: String..., with file: String) throws -> Finished {
            try done(sandbox.run(words, passcodes: sandbox.stored(file)))
        }

        func done(_ finished: Finished) throws -> Finished {
            guard finished.status == 0 else { throw CommandSandbox.Unexpected(finished.errors) }
            return finished
        }

        /// The names of the example's files.
        func names(below folder: String) throws -> [String] {
            let sums = try String(decoding: sandbox.stored("SHA256SUMS"), as: UTF8.self)
            return sums.split(separator: "\n").map { String($0.dropFirst(66)) }.filter { $0.hasPrefix(folder) }
        }

        /// Whether what is in `plain` are the files' plaintexts, and all of them.
        func expectPlaintexts(below folder: String) throws {
            let sums = "grep --fixed-strings \"  $0\" SHA256SUMS > plain/sums && cd plain"
            let checked = try sandbox.shell("\(sums) && sha256sum --check --quiet --strict sums", [folder])
            #expect(checked.status == 0, "\(checked.text)\(checked.errors)")
            try FileManager.default.removeItem(atPath: sandbox.path("plain"))
        }

        /// Opens copies of them by the command.
        func expectToOpen(below folder: String = "files/", at place: String = "", keybag directory: String? = nil)
            throws
        {
            let copy = "mkdir plain && cp --archive --no-preserve=ownership \"$0\"files plain && cd plain"
            let words = ["unprotect", "--recursive", "--keybag", directory ?? sandbox.keybagDirectory, folder]
            _ = try done(sandbox.shell("\(copy) && exec \"$PROTECTFS\" \"$@\"", [place] + words))
            try expectPlaintexts(below: folder)
        }

        /// The same by the independent reader, which says in one run how long each of them is and in another what is in it.
        func expectReader(_ way: String, below folder: String = "files/") throws {
            let names = try names(below: folder)
            let files = names.joined(separator: " ")
            let list = try done(sandbox.shell("\(Format1Tests.reader("listing.py")) \(files) \(way)"))
            var rest = try done(sandbox.shell("\(Format1Tests.reader("read.py")) \(files) \(way)")).output
            let sizes = list.text.split(separator: "\n").map { Int($0.split(separator: " ")[4])! }
            try #require(sizes.count == names.count && sizes.reduce(0, +) == rest.count)
            for (name, size) in zip(names, sizes) {
                let file = URL(fileURLWithPath: sandbox.path("plain/" + name))
                try FileManager.default.createDirectory(
                    at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
                try rest.prefix(size).write(to: file)
                rest = rest.dropFirst(size)
            }
            try expectPlaintexts(below: folder)
        }
    }

    private static func reader(_ program: String) -> String {
        "python3 -B \(tests.appendingPathComponent("IndependentReader/\(program)").path)"
    }

    @Test func everyFileOpensWithPasscodeAndDeviceKey() throws {
        let bed = try Bed()
        try bed.run("unlock", "--passcode-fd", "3", with: "passcode")
        try bed.expectToOpen()
        let verified = try bed.sandbox.run("verify", "--recursive", "files/older", "files/rotated", "files/newer")
        #expect(verified.status == 0, "\(verified.text) \(verified.errors)")
        // And can be written to: the records of the killed writer first.
        let before = try bed.sandbox.run("cat", "files/pending/complete").output
        _ = try bed.done(bed.sandbox.run("write", "--append", "files/pending/complete", input: Data("more".utf8)))
        #expect(try bed.sandbox.run("cat", "files/pending/complete").output == before + Data("more".utf8))
        #expect(try bed.sandbox.run("verify", "files/pending/complete").status == 0)
    }

    @Test func everyFileOpensWithTheRecoveryCodeOnAnotherMachine() throws {
        let bed = try Bed(hasDeviceKey: false)
        let words = try String(decoding: bed.sandbox.stored("recovery-code"), as: UTF8.self) + "another passcode\n"
        let recovered = try bed.sandbox.run(
            "passcode", "--with-recovery-code", "--recovery-code-fd", "3", "--new-passcode-fd", "3",
            passcodes: Data(words.utf8))
        #expect(recovered.recoveryCode != nil, "\(recovered.errors)")
        _ = try bed.done(
            bed.sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data("another passcode".utf8)))
        try bed.expectToOpen()
    }

    @Test func theExportRestores() throws {
        let bed = try Bed()
        try FileManager.default.removeItem(atPath: bed.sandbox.keybagDirectory)
        _ = try bed.done(bed.sandbox.run("recovery", "restore", "export.txt"))
        try bed.run("unlock", "--passcode-fd", "3", with: "passcode")
        try bed.expectToOpen(below: "files/older/")
    }

    @Test func theBackupRestoresUnderAnotherKeybag() throws {
        let bed = try Bed(hasDeviceKey: false)
        let other = try bed.sandbox.makeOtherKeybag()
        defer { bed.sandbox.evictKeys(of: other) }
        let words = ["restore", "backup", "--to", "back", "--keybag", other, "--passphrase-fd", "3"]
        let restored = try bed.sandbox.run(words, passcodes: bed.sandbox.stored("backup-passphrase"))
        #expect(restored.status == 0, "\(restored.errors)")
        try bed.expectToOpen(below: "files/older/", at: "back/", keybag: other)
    }

    @Test func everySecretOpens() throws {
        let bed = try Bed()
        try bed.run("unlock", "--passcode-fd", "3", with: "passcode")
        for (words, value) in [
            (["--service", "format1", "--account", "ann"], "kept before a rotation"),
            (["--host", "example.org", "--protocol", "https", "--account", "ann"], "of a host"),
            (["--service", "here"], "on this device only"), (["--service", "service"], "of a service"),
        ] {
            let got = try bed.sandbox.run(["secret", "get"] + words)
            #expect(got.text == value + "\n", "\(got.errors)")
        }
    }

    private static let hasPython: Bool = {
        let done = try? CommandSandbox(makesKeybag: false).shell("python3 -c 'import cryptography'")
        if done?.status == 0 { return true }
        print("Format1Tests skipped: python3 with the package cryptography is not here")
        return false
    }()

    @Test(.enabled(if: hasPython)) func theIndependentReaderOpensEveryFile() throws {
        let bed = try Bed(hasDeviceKey: false)
        try bed.expectReader("--keybag keybag --device-key device-key < passcode")
        try bed.expectReader("--keybag keybag --recovery-code < recovery-code")
    }

    @Test("protectfs opens the files of the worked example in FORMAT.md", .enabled(if: hasPython))
    func theWorkedExampleOpens() throws {
        let bed = try Bed(writtenBy: Self.reader("worked_example.py"))
        try bed.run("unlock", "--passcode-fd", "3", with: "passcode")
        try bed.expectToOpen()
    }

    @Test(.enabled(if: hasPython)) func theIndependentReaderOpensExportBackupAndSecrets() throws {
        let bed = try Bed(hasDeviceKey: false)
        _ = try bed.done(
            bed.sandbox.shell("mkdir exported && \(Self.reader("export.py")) export.txt > exported/keybag.0"))
        try bed.expectReader("--keybag exported --recovery-code < recovery-code", below: "files/older/")
        let copies = try bed.names(below: "files/older/").map { (name: $0, path: "backup/files/\($0)") }
        let back = "\(Self.reader("backup.py")) backup \(copies.map(\.path).joined(separator: " ")) < backup-passphrase"
        let read = "\(Self.reader("read.py")) --keybag keybag --recovery-code"
        let same = "\(read) \(copies.map(\.name).joined(separator: " ")) < recovery-code"
        let backedUpText = try bed.done(bed.sandbox.shell(back)).output
        #expect(try backedUpText == bed.done(bed.sandbox.shell(same)).output)
        let stored = Self.reader("stored_secrets.py")
        let secrets = try bed.done(
            bed.sandbox.shell("\(stored) --keybag keybag --device-key device-key < passcode"))
        #expect(
            try Self.values(secrets) == ["kept before a rotation", "of a host", "on this device only", "of a service"])
        let backedUp = try bed.done(bed.sandbox.shell("\(stored) --backup backup < backup-passphrase"))
        #expect(try Self.values(backedUp) == ["kept before a rotation", "of a host"])
    }

    private static func values(_ finished: Finished) throws -> [String] {
        try finished.text.split(separator: "\n").map { line in
            let secret = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            let digits = Array(try #require(secret?["value"] as? String))
            let bytes = stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0...$0 + 1]), radix: 16)! }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}
