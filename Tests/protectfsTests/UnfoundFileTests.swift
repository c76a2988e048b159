import Foundation
import Testing

/// Files that the search of `rotate --forget` would not find: they have no name yet, or are moved to where it has been.
@Suite("rotate beside files that a search passes by", .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
struct UnfoundFileTests {
    private let sandbox: CommandSandbox

    /// A call before which a command is held.
    enum HeldCall: String {
        case linkat, fsync, openat2

        /// As proc_pid_syscall(5) has it.
        var number: Int {
            #if arch(x86_64)
                switch self {
                case .linkat: 265
                case .fsync: 74
                case .openat2: 437
                }
            #else
                switch self {
                case .linkat: 37
                case .fsync: 82
                case .openat2: 437
                }
            #endif
        }
    }

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.put("old", at: "tree/plain")
        try sandbox.put("other", at: "source/plain")
        try sandbox.protectedFile("source/saved", Data("saved".utf8), "complete")
        try sandbox.makeBackup()
        #expect(try sandbox.run("backup", "--to", "backup", "source").status == 0)
        try sandbox.put(CommandSandbox.passphrase, at: "passphrase")
    }

    private func rotate(_ options: String...) throws -> Finished {
        try sandbox.run(
            ["rotate", "--passcode-fd", "3", "--root", "tree"] + options, passcodes: Data(CommandSandbox.passcode.utf8))
    }

    /// Starts a command, and holds it before its first such call: for a minute, or until ``release(_:)``.
    ///
    /// - Parameter path: of calls with this argument.
    private func held(before call: HeldCall, of path: String? = nil, _ command: String) throws -> Process {
        let inject = "-e trace=\(call) -e inject=\(call):delay_enter=60000000:when=1" + (path.map { " -P \($0)" } ?? "")
        let process = sandbox.start(
            "/bin/sh", ["-c", "exec strace -f -qq -o /dev/null \(inject) \(command)"], input: FileHandle.nullDevice)
        try process.run()
        #expect(waits { calls(below: process.processIdentifier).contains(call.number) }, "\(command)")
        return process
    }

    /// In which calls the threads of a process's descendants are.
    private func calls(below parent: Int32) -> [Int] {
        children(of: parent).flatMap { child in
            let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(child)/task")) ?? []
            return calls(below: child)
                + threads.compactMap { thread in
                    text("/proc/\(child)/task/\(thread)/syscall").split(separator: " ").first.flatMap { Int($0) }
                }
        }
    }

    private func children(of parent: Int32) -> [Int32] {
        text("/proc/\(parent)/task/\(parent)/children").split(separator: " ").compactMap { Int32($0) }
    }

    private func text(_ path: String) -> String { (try? String(contentsOfFile: path, encoding: .utf8)) ?? "" }

    /// Without its tracer the command goes on at once.
    private func release(_ process: Process) {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    @Test(
        "Nothing is forgotten before a file under the retired keys has its name",
        arguments: [
            ("write --class complete tree/new <tree/plain", "tree/new", "old"),
            ("protect --yes --class complete tree/plain", "tree/plain", "old"),
            ("restore backup --to tree --passphrase-fd 3 3<passphrase", nil, "saved"),
        ])
    func aboutToBeNamed(command: String, name: String?, contents: String) throws {
        let process = try held(before: .linkat, "$PROTECTFS \(command)")
        #expect(try rotate().status == 0)
        let refused = try rotate("--forget", "--yes")
        #expect(refused.status == 75)
        let error = "a program has not finished writing a file under retired class keys"
        #expect(refused.errors.contains(error), "\(refused.errors)")

        release(process)
        let path = try name ?? sandbox.restored("source/saved", in: "tree")
        #expect(try waits { try sandbox.run("cat", path).text == contents && sandbox.run("class", path).status == 0 })
        let found = try rotate("--forget", "--yes")
        #expect(found.status == 77 && found.errors.contains("1 file would be lost"), "\(found.errors)")
        #expect(try sandbox.run("rotate", "--resume", "--root", "tree").status == 0)
        #expect(try rotate("--forget", "--yes").status == 0)
        #expect(try sandbox.run("cat", path).text == contents)
    }

    @Test("A kill in that moment leaves nothing to wait for")
    func killed() throws {
        let process = try held(before: .linkat, "$PROTECTFS write --class complete tree/new <tree/plain")
        #expect(try rotate().status == 0)
        for child in children(of: process.processIdentifier) { kill(child, SIGKILL) }
        release(process)
        #expect(try rotate("--forget", "--yes").status == 0)
        #expect(try sandbox.run("cat", "tree/new").status == 66)
    }

    @Test("A file that is restored while the keys are rotated is under the new ones")
    func restored() throws {
        let process = try held(before: .fsync, "$PROTECTFS restore backup --to tree --passphrase-fd 3 3<passphrase")
        #expect(try rotate().status == 0)
        release(process)
        let path = try sandbox.restored("source/saved", in: "tree")
        #expect(try waits { try sandbox.run("cat", path).text == "saved" })
        #expect(try sandbox.run("explain", "--stored", path).text.contains("class key generation 2"))
        #expect(try rotate("--forget", "--yes").status == 0)
        #expect(try sandbox.run("cat", path).text == "saved")
    }

    @Test("A file that is moved during the search, to where it has been, is found")
    func moved() throws {
        try sandbox.put("", at: "tree/zz-last/x")
        try sandbox.protectedFile("tree/zz-last/file", Data("moved".utf8), "complete")
        try sandbox.put("", at: "tree/aa-first/x")
        try sandbox.put("", at: "empty/x")
        let done = try sandbox.run(
            ["rotate", "--passcode-fd", "3", "--root", "empty"], passcodes: Data(CommandSandbox.passcode.utf8))
        #expect(done.status == 0)
        try sandbox.put(CommandSandbox.passcode, at: "passcode")
        let forget = "$PROTECTFS rotate --forget --yes --root tree --passcode-fd 3 3<passcode 2>said; echo $? >status"
        let process = try held(before: .openat2, of: "zz-last", "sh -c '\(forget)'")
        let (from, to) = (sandbox.path("tree/zz-last/file"), sandbox.path("tree/aa-first/file"))
        try FileManager.default.moveItem(atPath: from, toPath: to)
        release(process)
        #expect(waits { text(sandbox.path("status")) == "77\n" })
        #expect(text(sandbox.path("said")).contains("1 file would be lost"))
    }
}
