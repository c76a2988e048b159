import Foundation
import Testing

@testable import DataProtection

/// The head of a file names its keybag, and a link in the registry leads to that keybag. Nobody authenticates either: here both are an
/// attacker's, who wrote to the disk while the keybag was locked.
@Suite("Files of another keybag, to which a planted link leads")
struct OtherKeybagTests {
    private let sandbox: CommandSandbox
    /// The attacker's keybag.
    private var evil: String { sandbox.path("evil") }

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.makeKeybag(in: sandbox.path("evil"))
        let uuid = try Keybag(at: FilePath(sandbox.path("evil"))).uuid
        for name in ["diary", "notes"] {
            let done = try sandbox.run(
                "write", "--class", "none", "--keybag", sandbox.path("evil"), name, input: Data("planted\n".utf8))
            guard done.status == 0 else { throw CommandSandbox.Unexpected(done.errors) }
        }
        try sandbox.unlock()
        let registry = sandbox.path("state/protectfs/keybags")
        if !FileManager.default.fileExists(atPath: "\(registry)/\(uuid)") {
            try FileManager.default.createSymbolicLink(
                atPath: "\(registry)/\(uuid)", withDestinationPath: sandbox.path("evil"))
        }
    }

    private func owner(_ name: String) throws -> KeybagUUID {
        try ProtectedFileInfo(of: FilePath(sandbox.path(name))).keybag
    }

    private func uuid(of directory: String) throws -> KeybagUUID { try Keybag(at: FilePath(directory)).uuid }

    @Test(
        "Nothing is appended, edited, decrypted in place or given a class under it; the error names it, and the command that would",
        arguments: [
            (["write", "--append", "diary"], "write --append 'diary'"),
            (["write", "--append", "--class", "none", "diary"], "write --append --class none 'diary'"),
            (["write", "--append", "--segments", "diary"], "write --append --segments 'diary'"),
            (["class", "diary", "complete"], "class 'diary' complete"),
            (["class", "--rekey", "diary"], "class --rekey 'diary'"),
            (["class", "--rekey", "--allow-weaker", "diary", "none"], "class --rekey --allow-weaker 'diary' none"),
            (["unprotect", "diary"], "unprotect 'diary'"),
        ])
    func nothingIsWritten(arguments: [String], command: String) throws {
        let before = try sandbox.stored("diary")
        let done = try sandbox.run(arguments, input: Data("top secret".utf8))
        #expect(done.status == 66)
        #expect(
            done.errors.contains(
                "error: 'diary' belongs to keybag \(try uuid(of: evil)) in '\(evil)', not to the keybag of this command, "
                    + "'\(sandbox.keybagDirectory)'\n"), "\(done.errors)")
        #expect(
            done.errors.hasSuffix("hint: if that keybag is yours: protectfs \(command) --keybag '\(evil)'\n"),
            "\(done.errors)")
        #expect(try sandbox.stored("diary") == before)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: sandbox.root).allSatisfy { !$0.contains("segment") })
    }

    @Test("edit starts no editor for it")
    func noEditor() throws {
        let bed = try EditBed()
        let other = bed.sandbox.path("other")
        try bed.sandbox.makeKeybag(in: other)
        defer { bed.sandbox.evictKeys(of: other) }
        try bed.sandbox.unlock("--keybag", other)
        #expect(try bed.sandbox.run("write", "diary", "--keybag", other, input: Data("x".utf8)).status == 0)
        let before = try bed.sandbox.stored("diary")
        let done = try bed.edit("diary", by: "echo $MARKER >>\"$1\"; touch \(bed.sandbox.path("started"))")
        #expect(done.status == 66)
        #expect(done.errors.contains("edit '") && done.errors.contains("--keybag '\(other)'"), "\(done.errors)")
        #expect(try bed.sandbox.stored("diary") == before)
        #expect(!FileManager.default.fileExists(atPath: bed.sandbox.path("started")))
        #expect(try bed.edit("diary", ["--keybag", other], by: "echo $MARKER >>\"$1\"").status == 0)
    }

    @Test("A file that replaces it belongs to the own keybag and has the class of a new file")
    func replaced() throws {
        let done = try sandbox.run("write", "notes", input: Data("top secret".utf8))
        #expect(done.status == 0, "\(done.errors)")
        #expect(
            done.errors.contains("warning: 'notes' belongs to another keybag, \(try uuid(of: evil))"), "\(done.errors)")
        #expect(try owner("notes") == uuid(of: sandbox.keybagDirectory))
        #expect(try sandbox.run("class", "notes").text == "complete\n")
        #expect(try sandbox.run("cat", "notes").text == "top secret")
        #expect(try sandbox.run("write", "notes", input: Data("more".utf8)).errors.isEmpty)
        try sandbox.run("lock")
        let locked = try sandbox.run("write", "diary", input: Data("top secret".utf8))
        #expect(locked.status == 75)
        #expect(locked.errors.hasSuffix("hint: unlock first: protectfs unlock\n"), "\(locked.errors)")
        #expect(try owner("diary") == uuid(of: evil))
    }

    @Test("A message that is imported over it belongs to the own keybag")
    func imported() throws {
        try sandbox.protectedFile("source")
        let password = Data("password".utf8)
        let sealed = try sandbox.run(
            "rncryptor", "seal", "source", "-o", "message", "--password-fd", "3", passcodes: password)
        #expect(sealed.status == 0, "\(sealed.errors)")
        let done = try sandbox.run(
            "rncryptor", "open", "message", "-o", "notes", "--replace", "--password-fd", "3", passcodes: password)
        #expect(done.status == 0, "\(done.errors)")
        #expect(try owner("notes") == uuid(of: sandbox.keybagDirectory))
        #expect(try sandbox.run("class", "notes").text == "complete\n")
    }

    @Test(
        "Every verb that reads it prints a warning that names its keybag",
        arguments: [
            ["cat", "diary"], ["verify", "diary"], ["verify", "--json", "diary"], ["explain", "--stored", "diary"],
            ["explain", "--stored", "--json", "diary"], ["explain", "diary"], ["explain", "--json", "diary"],
            ["run", "diary", "--", "true"], ["unprotect", "--salvage", "diary"],
        ])
    func readings(arguments: [String]) throws {
        let done = try sandbox.run(arguments)
        #expect(done.status == 0, "\(done.errors)")
        #expect(
            done.errors.contains("warning: 'diary' belongs to another keybag, '\(evil)', and is read with it"),
            "\(done.errors)")
        let named = try sandbox.run([arguments[0], "--keybag", evil] + arguments.dropFirst())
        #expect(named.status == 0 && !named.errors.contains("belongs to another keybag"), "\(named.errors)")
    }

    /// What explain says can be done with the file.
    private func possible() throws -> [String: Bool] {
        let list = try #require(try sandbox.run("explain", "--json", "diary").json() as? [[String: Any]])
        let actions = try #require(list.first?["actions"] as? [[String: Any]])
        return Dictionary(
            uniqueKeysWithValues: actions.map { ($0["action"] as? String ?? "", $0["possible"] as? Bool ?? false) })
    }

    @Test("explain says that it can be read, not written, and that replacing it takes the own keybag")
    func explained() throws {
        #expect(try possible() == ["read": true, "write": false, "change class": false, "replace": true])
        try sandbox.run("lock")
        #expect(try possible() == ["read": true, "write": false, "change class": false, "replace": false])
    }
}
