import Foundation
import Testing

@testable import DataProtection

/// Nothing gets a weaker class without `--allow-weaker`, whatever happens to the file between the look and the change.
@Suite("A weaker class, where the file changes meanwhile")
struct WeakeningTests {
    private let sandbox: CommandSandbox
    private let keybag: Keybag
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        keybag = try Keybag(at: FilePath(sandbox.keybagDirectory))
    }

    /// Whether a process has a file open: it tries to lock it then, again and again.
    private func hasOpen(_ process: Process, _ path: String) throws -> Bool {
        let directory = "/proc/\(process.processIdentifier)/fd"
        return try FileManager.default.contentsOfDirectory(atPath: directory).contains { name in
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\(name)")) == path
        }
    }

    @Test("class compares under the lock of the heads: a file that was raised before that stays raised")
    func raisedBeforeTheChange() throws {
        try sandbox.protectedFile("file", Data("x".utf8), "none")
        let file = try LowerFile.forHeads(of: FilePath(sandbox.path("file")))
        let process = sandbox.start(
            CommandSandbox.executable, ["class", "file", "first-unlock"], input: FileHandle.nullDevice)
        let errors = Pipe()
        process.standardError = errors
        try file.withByteLock(OpenFile.slotLock, .exclusive) { () throws(DataProtectionError) in
            do { try process.run() } catch { Issue.record(error) }
            // It has read the class, if it does so without the lock, and now waits for the lock.
            #expect(waits { (try? hasOpen(process, sandbox.path("file"))) == true })
            usleep(300_000)
            try keybag.change(file, to: .complete)
        }
        process.waitUntilExit()
        let words = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        #expect(process.terminationStatus == 77, "\(words)")
        #expect(words.contains("would be weaker: it is complete, not first-unlock"), "\(words)")
        #expect(try sandbox.run("class", "file").text == "complete\n")
    }

    @Test("write compares when the input has ended: a file that was raised meanwhile is not replaced by a weaker one")
    func raisedWhileTheInputComes() throws {
        try sandbox.protectedFile("file", Data("old".utf8), "first-unlock")
        let done = try sandbox.shell(
            """
            { printf new; sleep 1; until "$PROTECTFS" class file complete; do sleep 0.1; done; } |
                "$PROTECTFS" write --class first-unlock file
            """)
        #expect(done.status == 77, "\(done.errors)")
        #expect(try sandbox.run("class", "file").text == "complete\n")
        #expect(try sandbox.run("cat", "file").text == "old")
    }

    @Test("The library refuses it as a condition of the change: of a file, a directory, a new key and a replacement")
    func conditions() throws {
        try sandbox.protectedFile("file")
        let file = FilePath(sandbox.path("file"))
        let refused: (String, () throws(DataProtectionError) -> Void) -> Void = { name, body in
            do throws(DataProtectionError) {
                try body()
                Issue.record("\(name) was not refused")
            } catch {
                if case .because(FileFailure.wouldWeaken) = error { return }
                Issue.record("\(name): \(error)")
            }
        }
        refused("change") { () throws(DataProtectionError) in
            try keybag.setProtection(.none, ofItemAt: file, allowsWeaker: false)
        }
        refused("rekey") { () throws(DataProtectionError) in
            try keybag.rekey(fileAt: file, as: .completeUnlessOpen, allowsWeaker: false)
        }
        refused("replacement") { () throws(DataProtectionError) in
            _ = try ProtectedFileWriter(file, as: .completeUnlessOpen, keybag: keybag, allowsWeaker: false)
        }
        let directory = FilePath(sandbox.path("directory"))
        try FileManager.default.createDirectory(atPath: directory.string, withIntermediateDirectories: false)
        try keybag.setProtection(.complete, ofItemAt: directory, allowsWeaker: false)
        refused("directory") { () throws(DataProtectionError) in
            try keybag.setProtection(.completeUntilFirstUserAuthentication, ofItemAt: directory, allowsWeaker: false)
        }
        #expect(Keybag.defaultProtection(of: directory) == .complete)
        try keybag.setProtection(.complete, ofItemAt: file, allowsWeaker: false)
        try keybag.setProtection(.completeUnlessOpen, ofItemAt: file)
        #expect(try ProtectedFileInfo(of: file).protectionClass == .completeUnlessOpen)
    }
}
