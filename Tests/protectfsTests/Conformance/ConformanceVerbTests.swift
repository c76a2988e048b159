import Conformance
import Foundation
import Testing

@testable import DataProtection
@testable import protectfs_conformance

@Suite("protectfs conformance")
struct ConformanceVerbTests {
    private let sandbox: CommandSandbox
    private let directory: String

    init() throws {
        sandbox = try CommandSandbox()
        directory = sandbox.path("somewhere")
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
    }

    private func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: directory) }

    @Test("Prints the table, leaves nothing, and does not touch the user's keybag")
    func matrix() throws {
        let keybag = try FileManager.default.contentsOfDirectory(atPath: sandbox.keybagDirectory).sorted()
        let before = try keybag.map { try sandbox.stored("keybag/\($0)") }
        let done = try sandbox.run("conformance", "somewhere")
        #expect(done.status == 0)
        #expect(done.errors == "")
        #expect(try names().isEmpty)
        #expect(try keybag.map { try sandbox.stored("keybag/\($0)") } == before)
        #expect(try FileManager.default.contentsOfDirectory(atPath: sandbox.keybagDirectory).sorted() == keybag)
        let remembered = sandbox.path("state/protectfs/keybags")
        #expect((try? FileManager.default.contentsOfDirectory(atPath: remembered).count) ?? 0 <= 1, "only the user's")

        let lines = done.text.split(separator: "\n").map(String.init)
        let table = try SemanticsTable.compiledIn()
        for row in table.operations {
            let isTried = row.unavailable == nil && ![.newMapping, .existingMapping].contains(row.rehearsal)
            let marks = isTried ? row.marks.map(Self.text) : ["n/a"]
            #expect(
                lines.contains { $0.hasPrefix(row.rehearsal.rawValue + " ") && Self.columns($0) == marks }, "\(row)")
        }
        for change in table.classChanges {
            let name = "\(change.old.shortName) to \(change.new.shortName) "
            let marks = [change.closed, change.open].map(Self.text)
            #expect(lines.contains { $0.hasPrefix(name) && Self.columns($0) == marks }, "\(change)")
        }
        #expect(lines.last == "784 cells: 660 agreed, 0 different, 81 cannot arise, 43 n/a")
        print("conformance: \(lines.last ?? "")")
    }

    private static func text(_ marks: SemanticsTable.Marks) -> String { String(marks.map(\.rawValue)) }

    /// What stands behind the name.
    private static func columns(_ line: String) -> [String] {
        line.dropFirst(44).split(separator: " ").map(String.init)
    }

    @Test("Operations that a file system lacks are found, named and counted: status 71")
    func differences() throws {
        // ramfs has no extended attributes, and does not say how large it is.
        let namespace = geteuid() == 0 ? "--mount" : "--user --map-root-user --mount"
        let mounted = "mount -t ramfs none somewhere"
        guard try sandbox.shell("unshare \(namespace) \(mounted)").status == 0 else {
            print("skipped: a file system without attributes: no ramfs can be mounted here")
            return
        }
        let done = try sandbox.shell(
            "exec unshare \(namespace) sh -c '\(mounted) && \"$PROTECTFS\" conformance somewhere --json; "
                + "status=$?; ls -A somewhere >left; exit $status'")
        #expect(done.status == 71, "\(done.errors)")
        let answer = try #require(try done.json() as? [String: Any])
        let cells = try #require(answer["cells"] as? [[String: Any]])
        let different = cells.filter { $0["verdict"] as? String == "different" }
        #expect(
            Set(different.compactMap { $0["operation"] as? String }) == [
                "create, class inherited", "set class of a directory",
            ])
        #expect(different.count == 32, "16 cells each")
        let last = try #require(different.last)
        #expect(last["class"] as? String == "none")
        #expect(last["state"] as? String == "locked")
        #expect(last["expected"] as? String == "it goes")
        #expect(last["found"] as? String == "setxattr: Operation not supported")
        let counts = ["cells": 784, "agreed": 628, "different": 32, "cannotArise": 81, "notApplicable": 43]
        #expect(answer["counts"] as? [String: Int] == counts)
        #expect(try sandbox.stored("left").isEmpty)
    }

    @Test("Differences and counts, as text and as JSON")
    func report() throws {
        let table = try SemanticsTable(
            parsing: """
                [operations]
                stat             ++++  ++++  ++++  ++++
                new mmap         ----  ++++  ++++  ++++
                    n/a: not yet
                [class changes]
                complete none    x++x  -++x
                """)
        var report = ConformanceReport(table)
        for cell in table.cells {
            let finding: Finding? =
                cell.unavailable.map { .notApplicable($0) } ?? (cell.expected == .cannotArise ? nil : .goes)
            report.add(cell, finding)
        }
        #expect(report.differences == 3)
        #expect(
            report.lines.suffix(9) == [
                "+ goes   x ENOKEY   ! EINVAL   - cannot arise   o n/a   ? something else", "",
                "n/a: new mmap: not yet", "",
                "different: from complete to none, before first unlock: expected ENOKEY, found it goes",
                "different: from complete to none, locked: expected ENOKEY, found it goes",
                "different: from complete to none, open, locked: expected ENOKEY, found it goes", "",
                "40 cells: 20 agreed, 3 different, 1 cannot arise, 16 n/a",
            ])
        #expect(
            report.lines.prefix(3) == [
                "OPERATION                               complete  unless-open first-unlock none",
                "stat                                        ++++         ++++         ++++ ++++",
                "new mmap                                     n/a",
            ])
        #expect(report.lines[5] == "complete to none                            ++++         -+++")
        #expect(report.lines.allSatisfy { $0.count < 80 || $0.hasPrefix("different") || $0.hasPrefix("n/a") })
    }

    @Test("Interrupted, it leaves no file and no key", arguments: ["library", "command"])
    func interrupted(way: String) throws {
        let (process, uuid) = try begin(way)
        process.terminate()
        process.waitUntilExit()
        #expect(process.terminationStatus == 130)
        #expect(try names().isEmpty)
        expectNoKeys(uuid)
    }

    @Test("The next run removes everything that a killed run left, its keys too", arguments: ["library", "command"])
    func killed(way: String) throws {
        let (process, uuid) = try begin(way)
        kill(process.processIdentifier, SIGSTOP)
        let commands = try children(of: process.processIdentifier)
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        // What it had started goes on for a moment, and would write where the next run removes.
        #expect(waits { !commands.contains(where: isRunning) })
        #expect(try names().count == 1)
        do {
            let next = try Scratch(in: FilePath(directory))
            #expect(try names() == [next.path.lastComponent?.string], "its own only")
            expectNoKeys(uuid)
        }
        #expect(try names().isEmpty)
    }

    @Test("Of runs that begin at the same time none takes the other's directory for abandoned")
    func beginningTogether() async throws {
        let place = FilePath(directory)
        try await withThrowingTaskGroup(of: Scratch.self) { group in
            for _ in 0..<32 { group.addTask { try Scratch(in: place) } }
            var all: [Scratch] = []
            for try await scratch in group { all.append(scratch) }
            #expect(try names().count == 32)
            #expect(Set(all.map(\.path)).count == 32)
        }
        #expect(try names().isEmpty)
    }

    @Test("Where no keybag can be kept, the files are tried all the same")
    func keybagElsewhere() throws {
        let scratch = try Scratch(in: FilePath(directory))
        try Data().write(to: URL(fileURLWithPath: scratch.path.appending("keybag").string))
        let stage = try Stage(in: scratch)
        #expect(stage.refusal != nil && !stage.keybag.directory.starts(with: scratch.path))
        let cell = try #require(try SemanticsTable.compiledIn().operations.first?.cells[1])
        #expect(ConformanceRun(stage, LibrarySubject(stage)).finding(cell) == .goes)
    }

    @Test("A directory that is none, or not there")
    func noDirectory() throws {
        for name in ["missing", ".profile"] {
            try sandbox.put("text", at: ".profile")
            let done = try sandbox.run("conformance", name)
            #expect(done.status == 66, "\(done.errors)")
            #expect(done.errors.hasPrefix("protectfs: error: "))
        }
    }

    /// A run that is under way, and the name of its keybag, of which keys are in the ring.
    private func begin(_ way: String) throws -> (Process, KeybagUUID) {
        let process = sandbox.start(
            CommandSandbox.executable, ["conformance", "--through", way, "somewhere"],
            input: FileHandle(forReadingAtPath: "/dev/null")!)
        process.standardOutput = FileHandle(forWritingAtPath: "/dev/null")!
        process.standardError = FileHandle(forWritingAtPath: "/dev/null")!
        try process.run()
        var keybag: Keybag?
        #expect(
            try waits {
                guard let name = try names().first else { return false }
                keybag = try? Keybag(at: FilePath(directory).appending(name).appending("keybag"))
                return (try keybag?.state()) == .unlocked
            })
        return (process, try #require(keybag).uuid)
    }

    /// What a process has started, whichever of its threads did.
    private func children(of parent: Int32) throws -> [Int32] {
        let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(parent)/task")
        return try threads.flatMap { thread in
            try String(contentsOfFile: "/proc/\(parent)/task/\(thread)/children", encoding: .utf8)
                .split(separator: " ").compactMap { Int32($0) }
        }
    }

    /// Whether the process is there and has not ended, as one has that nobody waits for.
    private func isRunning(_ process: Int32) -> Bool {
        let status = (try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)) ?? ""
        return !status.isEmpty && !status.contains("State:\tZ")
    }

    private func expectNoKeys(_ keybag: KeybagUUID) {
        let ring = RingKeys(keybag)
        #expect((try? ring.unlocked.find()) == nil)
        #expect((try? ring.firstUnlock.find()) == nil)
    }
}
