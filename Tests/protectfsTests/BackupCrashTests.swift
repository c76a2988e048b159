import DataProtection
import Foundation
import TestEffort
import Testing

/// Killed on their way into one call after the other, until they make no more of that kind. A slice of them.
@Suite("A backup, or a restore, that is killed")
struct BackupCrashTests {
    private let sandbox: CommandSandbox
    private let other: String

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        other = try sandbox.makeOtherKeybag()
        try sandbox.makeBackup()
    }

    /// Runs a command that a signal ends at its call number `number` of that kind.
    private func killed(_ call: String, _ number: Int, _ command: String) throws -> Finished {
        let inject = "-e trace=\(call) -e inject=\(call):signal=KILL:when=\(number)"
        try Data(CommandSandbox.passphrase.utf8).write(to: URL(fileURLWithPath: sandbox.path("passphrase")))
        return try sandbox.shell("strace -f -qq -o /dev/null \(inject) \"$PROTECTFS\" \(command)")
    }

    private func text(_ name: String, in target: String) throws -> String? {
        let done = try sandbox.run("cat", "--keybag", other, sandbox.restored(name, in: target))
        return done.status == 0 ? done.text : nil
    }

    @Test(
        "At every call: the backup restores what the last one that ended had, or what is newer",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot),
        arguments: ["linkat", "renameat", "fsync", "pwrite64", "symlinkat"])
    func backup(call: String) throws {
        try sandbox.put("plain", at: "tree/sub/plain")
        try sandbox.protectedFile("tree/old", Data("first\n".utf8))
        try sandbox.protectedFile("tree/same", Data("same\n".utf8), "none")
        symlink("first", sandbox.path("tree/link"))
        #expect(try sandbox.run("backup", "--to", "backup", "tree").status == 0)
        try sandbox.protectedFile("tree/old", Data("second\n".utf8))
        try sandbox.protectedFile("tree/sub/new", Data("new\n".utf8), "unless-open")
        unlink(sandbox.path("tree/link"))
        symlink("second", sandbox.path("tree/link"))
        let saved = sandbox.path("saved")
        try FileManager.default.copyItem(atPath: sandbox.path("backup"), toPath: saved)
        var kills = 0
        for number in 1... where number == 1 || Effort.includes(number) {
            try FileManager.default.removeItem(atPath: sandbox.path("backup"))
            try FileManager.default.copyItem(atPath: saved, toPath: sandbox.path("backup"))
            let done = try killed(call, number, "backup --to backup tree")
            try #require([0, 137].contains(done.status), "\(call) \(number): \(done.errors)")
            let target = "target-\(number)"
            let restored = try sandbox.restore(to: target, keybag: other)
            #expect(restored.status == 0, "\(call) \(number): \(restored.errors)")
            let old = try text("tree/old", in: target)
            #expect(old == "second\n" || done.status != 0 && old == "first\n", "\(call) \(number)")
            #expect(try text("tree/same", in: target) == "same\n", "\(call) \(number)")
            let link = try FileManager.default.destinationOfSymbolicLink(
                atPath: sandbox.restored("tree/link", in: target))
            #expect(link == "second" || done.status != 0 && link == "first", "\(call) \(number)")
            if let new = try text("tree/sub/new", in: target) { #expect(new == "new\n") }
            // The next one takes away what was left.
            #expect(try sandbox.run("backup", "--to", "backup", "tree").status == 0)
            let left = try sandbox.shell("find backup -name '*unfinished*' -o -name keybag.new").text
            #expect(left == "", "\(call) \(number)")
            if done.status == 0 { break }
            kills += 1
        }
        #expect(kills > 0, "it makes such a call")
        print("storm, backup, at every \(call): \(kills) kills")
    }

    @Test(
        "At every call: every file that has its name is whole, and a second try does the rest",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot),
        arguments: ["linkat", "renameat", "fsync", "pwrite64", "mkdirat"])
    func restore(call: String) throws {
        try sandbox.put("plain", at: "tree/sub/plain")
        let texts = ["a": "first\n", "b": "second\n", "sub/c": "third\n"]
        for (name, text) in texts { try sandbox.protectedFile("tree/\(name)", Data(text.utf8)) }
        #expect(try sandbox.run("backup", "--to", "backup", "tree").status == 0)
        let options = call == "renameat" ? "--replace" : ""
        var kills = 0
        for number in 1... where number == 1 || Effort.includes(number) {
            let target = "target-\(number)"
            if call == "renameat" {
                for name in texts.keys {
                    try sandbox.put("mine", at: "\(target)\(FilePath(sandbox.root).resolved())/tree/\(name)")
                }
            }
            let done = try killed(
                call, number,
                "restore backup --to \(target) \(options) --keybag \(other) --passphrase-fd 3 3<passphrase")
            try #require([0, 137].contains(done.status), "\(call) \(number): \(done.errors)")
            for (name, expected) in texts {
                let path = try sandbox.restored("tree/\(name)", in: target)
                guard let bytes = FileManager.default.contents(atPath: path) else { continue }
                let isMine = call == "renameat" && bytes == Data("mine".utf8)
                let text = try text("tree/\(name)", in: target)
                #expect(isMine || text == expected, "\(call) \(number)")
            }
            let again = try sandbox.restore(to: target, "--replace", keybag: other)
            #expect(again.status == 0, "\(call) \(number): \(again.errors)")
            for (name, expected) in texts { #expect(try text("tree/\(name)", in: target) == expected) }
            if done.status == 0 { break }
            kills += 1
        }
        #expect(kills > 0, "it makes such a call")
        print("storm, restore, at every \(call): \(kills) kills")
    }
}
