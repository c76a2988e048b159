import Foundation
import TestEffort
import Testing

/// What a run of export or import leaves when it is killed, and what memory it takes.
@Suite("export and import: killed, and measured")
struct RNCryptorRunTests {
    private let sandbox: CommandSandbox

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        try Data((100..<164).map { UInt8($0) }).write(to: URL(fileURLWithPath: sandbox.path("keys")))
    }

    /// A protected file of which no two stretches are alike.
    private func makeFile(_ bytes: Int) throws {
        let done = try sandbox.shell(
            "yes 'a line that is numbered' | cat -n | head -c \(bytes) | \"$PROTECTFS\" write --class complete file")
        guard done.status == 0 else { throw CommandSandbox.Unexpected(done.errors) }
    }

    private static let ways = [
        "export": "rncryptor seal file -o target --key-fd 3",
        "import": "rncryptor open message -o target --key-fd 3",
        "import of a pipe": "rncryptor open - -o target --key-fd 3",
    ]

    /// At random moments, and at the moment before the file gets its name.
    @Test("Killed at any moment: no file, or a whole one", arguments: ways.keys.sorted())
    func killed(way: String) throws {
        try makeFile(6 << 20)
        let sum = try sandbox.shell("\"$PROTECTFS\" cat file | sha256sum").text
        try sandbox.shell("exec \"$PROTECTFS\" rncryptor seal file -o message --key-fd 3 3<keys").done()
        let source = way == "import of a pipe" ? "cat message | " : ""
        let command = "\"$PROTECTFS\" \(Self.ways[way]!) 3<keys"
        let open =
            way == "export"
            ? "\"$PROTECTFS\" rncryptor open target -o - --key-fd 3 3<keys" : "\"$PROTECTFS\" cat target"
        var (absent, whole) = (0, 0)
        var generator = Effort.generator("RNCryptorRunTests, \(way)")
        let kills = Effort.count(6, 60)
        for _ in 0..<kills {
            let milliseconds = Int.random(in: 0...600, using: &generator)
            _ = try sandbox.shell(
                "\(source)\(command) & sleep \(Double(milliseconds) / 1000); kill -9 $!; wait $!; exit 0")
            let left = try sandbox.shell("ls -A | grep -v '^[.]run-\\|^[.]passcodes' | sort").text
            if FileManager.default.fileExists(atPath: sandbox.path("target")) {
                #expect(try sandbox.shell("\(open) | sha256sum").text == sum, "killed after \(milliseconds) ms")
                whole += 1
                unlink(sandbox.path("target"))
            } else {
                absent += 1
            }
            #expect(!left.contains("unfinished"), "killed after \(milliseconds) ms: \(left)")
        }
        print("\(way): killed \(kills) times: \(absent) without a file, \(whole) with a whole one")
        guard try sandbox.shell("strace -o /dev/null true").status == 0 else {
            return print("skipped: the kill before the name: strace(1) cannot trace here")
        }
        let traced = try sandbox.shell(
            "\(source)strace -f -o /dev/null -e inject=linkat:signal=KILL:error=EIO \(command)")
        #expect(traced.status != 0)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("target")))
        #expect(try !sandbox.shell("ls -A").text.contains("unfinished"))
        // Without the kill the same command makes the file.
        try sandbox.shell(source + command).done()
        #expect(try sandbox.shell("\(open) | sha256sum").text == sum)
    }

    @Test("Bounded memory, whatever the size")
    func memory() throws {
        let size = Effort.count(48, 1_024) << 20
        try makeFile(size)
        for (name, words) in [
            ("export", "rncryptor seal file -o message --key-fd 3"),
            ("import", "rncryptor open message -o copy --key-fd 3"),
            ("import to standard output", "rncryptor open message -o - --key-fd 3"),
            ("import of a pipe", "rncryptor open - -o piped --key-fd 3"),
        ] {
            let done = try sandbox.shell(
                """
                \(name == "import of a pipe" ? "cat message | " : "")python3 -c '
                import os, resource, subprocess, sys
                done = subprocess.run([os.environ["PROTECTFS"]] + sys.argv[1:], stdout=open("printed-" + sys.argv[-3], "wb"), pass_fds=[3])
                print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
                ' \(words) 3<keys
                """)
            let numbers = done.errors.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
            try #require(numbers.count == 2 && numbers[0] == 0, "\(done.errors)")
            print("\(name) of \(size >> 20) MiB: \(numbers[1]) KiB at most")
            if !Self.isSanitized { #expect(numbers[1] <= 32 << 10, "\(name)") }
        }
        let sums = try sandbox.shell(
            "for file in file copy piped; do \"$PROTECTFS\" cat $file | sha256sum; done; sha256sum <printed--"
        ).text
        #expect(Set(sums.split(separator: "\n")).count == 1)
        #expect(sums.split(separator: "\n").count == 4)
    }

    /// A sanitizer's shadow is memory too.
    private static let isSanitized = ["TSAN_OPTIONS", "ASAN_OPTIONS"].contains {
        ProcessInfo.processInfo.environment[$0] != nil
    }
}

extension Finished {
    fileprivate func done() throws {
        guard status == 0 else { throw CommandSandbox.Unexpected(errors) }
    }
}
