import Foundation
import TestEffort
import Testing

import struct ProtectionFormat.AttemptRecord
import struct ProtectionFormat.EventRecord
import struct ProtectionFormat.TransitionRecord

@testable import DataProtection

/// Whoever can write to a keybag's directory can put any number there. No command dies of one.
@Suite("Any number in the files of a keybag")
struct ForgedNumberTests {
    static let numbers: [UInt64] = [0, 1, 1 << 31, UInt64(Int64.max), 1 << 63, .max]

    private let sandbox: CommandSandbox
    private let keybag: Keybag
    private var directory: FilePath { keybag.directory }

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.protectedFile("file", Data("x".utf8), "none")
        keybag = try Keybag(at: FilePath(sandbox.keybagDirectory))
    }

    /// Runs what looks at these files, and expects an exit status of ours: no signal, and no "bug". A slice of the commands, another one
    /// for each number.
    private func expectNoCrash(_ what: String, _ number: UInt64, _ prepare: () throws -> Void) throws {
        let commands = [
            ["status"], ["status", "--json"], ["cat", "file"], ["cat", "locked"], ["explain", "file"], ["doctor"],
            ["explain", "--stored"] + [sandbox.keybagDirectory], ["queue", "list"], ["queue", "list", "--json"],
            ["agent", "status"],
            ["agent", "status", "--json"], ["wait", "--timeout", "1"],
        ]
        let first = Self.numbers.firstIndex(of: number)! * commands.count
        for (index, command) in commands.enumerated() where Effort.includes(first + index) {
            try prepare()
            let done = try sandbox.run(command)
            #expect(done.status < 128 && done.status != 70, "\(what): \(command): \(done.status) \(done.errors)")
            #expect(!done.errors.contains("Fatal error"), "\(what): \(command)")
        }
    }

    /// `watch` ends when nobody reads any more, which it sees at the first event.
    private func expectWatches(_ what: String) throws {
        let done = try sandbox.shell(
            "timeout -s INT 2 \"$PROTECTFS\" watch; test $? -ge 124 && exit 0; test $? -lt 2")
        #expect(!done.errors.contains("Fatal error") && done.status == 0, "\(what): \(done.status) \(done.errors)")
    }

    private func store(_ bytes: [UInt8], _ name: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: directory.appending(name).string))
    }

    @Test("In transition, while locked and unlocked", arguments: numbers)
    func transition(number: UInt64) throws {
        let forge: (Bool) throws -> Void = { isOfThisBoot in
            var record = TransitionRecord()
            (record.counter, record.changedAt) = (number, number)
            if isOfThisBoot { (record.bootID, record.deadline, record.limit) = (Clock.bootID(), number, number) }
            try store(record.encoded, "transition")
        }
        try sandbox.unlock()
        try sandbox.protectedFile("locked")
        try sandbox.run("lock")
        try expectNoCrash("locked", number) { try forge(false) }
        try forge(false)
        #expect(try sandbox.run("status").text.contains("locked"))
        try sandbox.unlock()
        try expectNoCrash("unlocked", number) { try forge(true) }
        try forge(true)
        try expectWatches("watch")
        let lock = try sandbox.run("lock")
        #expect(lock.status == 0, "\(lock.errors)")
        #expect(!spoken(time: number).isEmpty)
    }

    @Test("In transition and rings, when a program opens a file and listens", arguments: numbers)
    func openFile(number: UInt64) throws {
        let write = "(sleep 0.3; echo x) | \"$PROTECTFS\" write --class unless-open \"$1\""
        for name in ["deadline", "limit", "rings"] {
            try sandbox.unlock()
            if name == "rings" {
                try RingPlaces(directory: directory).add(expiry: number)
            } else {
                var record = TransitionRecord()
                record.bootID = Clock.bootID()
                (record.deadline, record.limit) = name == "deadline" ? (number, 0) : (0, number)
                try store(record.encoded, "transition")
            }
            let done = try sandbox.shell(write, ["sh", name])
            #expect(done.status == 0, "\(name): \(done.status) \(done.errors)")
        }
    }

    @Test("In attempts", arguments: numbers)
    func attempts(number: UInt64) throws {
        for sequence in [1, (1 << 62) - 1] as [UInt64] {
            let record = AttemptRecord(
                sequence: sequence, keybag: keybag.uuid, failures: UInt32(clamping: number), guessTag: 1,
                bootTime: number, bootID: Clock.bootID())
            let bytes = try record.encoded()
            try store(bytes + bytes, "attempts")
            #expect(try sandbox.run("status").status == 0)
            #expect(try sandbox.run("doctor", "--json").status < 128)
            let wrong = try sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data("wrong".utf8))
            #expect([75, 77].contains(wrong.status), "\(wrong.errors)")
        }
    }

    @Test("In run/state, agent, exported, and notes of the queue", arguments: numbers)
    func others(number: UInt64) throws {
        try sandbox.unlock()
        let run = directory.appending("run").string
        try FileManager.default.createDirectory(
            atPath: run, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let agent = try AgentRecord(pid: 1, since: number, program: "/agent", followsAll: true).hold(in: directory)
        defer { withExtendedLifetime(agent) {} }
        let fileID = String(repeating: "0", count: 32)
        let note = [
            ["raise", "\(number)", "\(number)", fileID, "/nothing/file", "4", "1"],
            ["begun", "\(number)", "\(number)", fileID, "/nothing/log", "\(number)", "\(number)", "\(number)"],
            ["failed", "\(number)", "\(number)"],
        ]
        let queue = directory.appending("queue").string
        try FileManager.default.createDirectory(
            atPath: queue, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        try expectNoCrash("others", number) {
            let event = EventRecord(
                kind: .willBecomeUnavailable, keybag: keybag.uuid, counter: number, deadline: number,
                bootID: Clock.bootID())
            try store(event.encoded(), "run/state")
            try store(Array("\(number) \(number)\n".utf8), "exported")
            let text = note.map { $0.map { $0 + "\0" }.joined() + "\n" }.joined()
            for name in ["1", "\(number)"] { try store(Array(text.utf8), "queue/\(name)") }
            try store(Array("\(number)\n".utf8), "queue/1.tries")
        }
        try expectWatches("watch")
        #expect(try sandbox.run("queue", "run").status < 128)
    }

    @Test("Numbers that no clock shows become dates and words", arguments: numbers + [UInt64(Int64.max) / 1000])
    func words(number: UInt64) {
        #expect(!spoken(time: number).isEmpty)
        let date = Date(secondsSince1970: number)
        #expect(date <= .distantFuture && !spoken(time: date).isEmpty)
        for value in [Double(number), -Double(number), .infinity, -.infinity, .nan] {
            #expect(Int(clamping: value) <= .max && UInt64(clamping: value) >= 0 && UInt32(clamping: value) >= 0)
        }
        #expect(
            Int64(clamping: -1.5) == -1 && UInt64(clamping: -1.5) == 0 && UInt64(clamping: Double(UInt64.max)) == .max)
        #expect(!spoken(time: Date(timeIntervalSince1970: .infinity)).isEmpty)
    }
}
