import Foundation
import SystemPackage
import Testing

@testable import DataProtection

@Suite("lock's report on programs that have files open")
struct LockReportVerbTests {
    private let sandbox: CommandSandbox

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        try CrowdInSandbox.makeFiles(sandbox)
    }

    private func clients(_ arguments: String...) throws -> [[String: Any]] {
        let document = try sandbox.run(arguments).json() as? [String: Any]
        let keybags = try #require(document?["keybags"] as? [[String: Any]])
        return try #require(keybags.first?["clients"] as? [[String: Any]])
    }

    @Test("Nothing, where nothing is open", arguments: [["lock"], ["lock", "--require-clean"]])
    func silent(arguments: [String]) throws {
        let done = try sandbox.run(arguments)
        #expect(done.status == 0)
        #expect(done.text + done.errors == "")
        let nobody = "\nno program has complete or unless-open files open\n"
        #expect(try sandbox.run("status", "--clients").text.hasSuffix(nobody))
        #expect(try clients("lock", "--json").isEmpty)
    }

    @Test("Programs that go on with unless-open files are named; that is clean")
    func unlessOpen() throws {
        let reader = try CrowdInSandbox(sandbox, ["read"])
        let done = try sandbox.run("lock", "--require-clean")
        #expect(done.status == 0)
        #expect(
            done.errors == "protectfs: note: 'storm-worker' (process \(reader.pid)) has 1 unless-open file open, "
                + "and can still read and write: '\(sandbox.path("files/unless-open-handle"))'\n")
        #expect(done.text == "")
        let table = try sandbox.run("status", "--clients").text.split(separator: "\n")
        #expect(table.count == 3)
        #expect(table[0].contains(": partially locked since ") && table[0].contains(", 1 unless-open open"))
        #expect(table[1] == "PROCESS  COMPLETE  UNLESS-OPEN  LAST LOCK  PROGRAM")
        #expect(table[2].split(separator: " ") == ["\(reader.pid)", "1", "1", "answered", "'storm-worker'"])
    }

    @Test("A program that did not answer: 75 with --require-clean, keys evicted; clean when it goes on")
    func stopped() throws {
        let reader = try CrowdInSandbox(sandbox, ["write", "one"])
        reader.stop()
        let done = try sandbox.run("lock", "--require-clean")
        #expect(done.status == 75)
        let lines = done.errors.split(separator: "\n")
        #expect(lines.count == 3)
        #expect(lines[0].hasPrefix("protectfs: warning: 'storm-worker' (process \(reader.pid)) did not respond: "))
        #expect(lines[1].hasPrefix("protectfs: error: the keys were evicted, but 1 program may still have keys"))
        #expect(try sandbox.run("cat", "files/complete").status == 75)
        let client = try #require(try clients("status", "--clients", "--json").first)
        #expect(client["pid"] as? Int32 == reader.pid)
        #expect(client["answered"] as? Bool == false)
        #expect(client["completeFiles"] as? Int == 1)
        kill(reader.pid, SIGCONT)
        #expect(try sandbox.run("lock", "--require-clean").status == 0)
    }

    @Test("More programs than can be asked: that is said, and is not clean; the keys have gone all the same")
    func moreThanCanBeAsked() throws {
        let clients = FilePath(sandbox.keybagDirectory).appending("run").appending("clients")
        try FileManager.default.createDirectory(
            atPath: clients.string, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        // As a process that lives has it.
        let others = try (0..<64).map { number in
            let file = try LowerFile(clients.appending("\(number)"), flags: O_RDWR | O_CREAT)
            #expect(try file.tryByteLock(0, .exclusive))
            return file
        }
        let done = try sandbox.shell("ulimit -n 32; exec \"$PROTECTFS\" lock --require-clean")
        #expect(done.status == 75)
        let lines = done.errors.split(separator: "\n")
        #expect(lines.first == "protectfs: warning: not every program could be asked")
        #expect(lines.dropFirst().first?.contains("but some programs may still have keys") == true)
        #expect(try sandbox.run("cat", "files/complete").status == 75)
        withExtendedLifetime(others) {}
    }

    @Test("A program that cannot make itself known, as on a full disk: that is said, and is not clean until it ends")
    func unnoted() throws {
        try sandbox.protectedFile("files/large", Data(count: 1_000_000))
        // Where notes of programs are kept, nothing can be made.
        let done = try sandbox.shell(
            """
            rm -r keybag/run; echo >keybag/run; mkfifo go
            { "$PROTECTFS" cat files/large 2>/dev/null; } | { read -r line <go; wc -c >/dev/null; } &
            until grep -q ' 1099511627776 1099511627776$' /proc/locks; do sleep 0.01; done
            "$PROTECTFS" lock --require-clean; echo $?
            echo >go; wait
            "$PROTECTFS" lock --require-clean; echo $?
            """)
        #expect(done.text == "75\n0\n", "\(done.errors)")
        #expect(done.errors.hasPrefix("protectfs: warning: not every program could be asked\n"), "\(done.errors)")
    }

    @Test("Locked and unlocked by the command, read and written by others: data or locked, and no write lost")
    func rapidly() throws {
        let readers = try (0..<3).map { _ in try CrowdInSandbox(sandbox, ["read"]) }
        let writers = try ["one", "two"].map { try CrowdInSandbox(sandbox, ["write", $0]) }
        for _ in 0..<20 {
            #expect(try sandbox.run("lock").status == 0)
            try sandbox.unlock()
        }
        try sandbox.put("", at: "files/stop")
        for reader in readers { #expect(reader.line().split(separator: " ").compactMap { Int($0) }.count == 2) }
        for (writer, name) in zip(writers, ["one", "two"]) {
            let said = writer.line()
            let count = try #require(Int(said.split(separator: " ").first ?? ""), "\(said)")
            let expected = (0..<UInt64(count)).flatMap { number in
                (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
            }
            #expect(try sandbox.run("cat", "files/\(name)").output.prefix(8 * count) == Data(expected))
        }
    }
}
