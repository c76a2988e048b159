import Foundation
import Testing

@Suite("write and cat")
struct WriteAndCatTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private static let sizes = [0, 1, 3584, 3585, 65_536, 262_144, 3_000_001]

    private func bytes(_ count: Int) -> Data { Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }) }

    @Test("Names that are no UTF-8 and look alike are different files, also in a long list")
    func namesThatLookAlike() throws {
        let done = try sandbox.shell(
            """
            one=$(printf 'x\\377') two=$(printf 'x\\376')
            echo 1 | "$PROTECTFS" write "$one"; echo 2 | "$PROTECTFS" write "$two"; echo 3 | "$PROTECTFS" write three
            "$PROTECTFS" cat "$two" "$one"; "$PROTECTFS" cat -- "$one" "$two"
            for number in $(seq 80); do set -- "$@" three; done
            "$PROTECTFS" cat "$two" "$@" "$one" "$two" | uniq
            "$PROTECTFS" cat "$two" "$two.none" "$one.none" 2>&1 | grep -c 'no such file'
            """)
        #expect(done.text == "2\n1\n1\n2\n2\n3\n1\n2\n2\n", "\(done.errors)")
    }

    @Test("cat prints the bytes that write has stored", arguments: sizes)
    func roundTrip(size: Int) throws {
        let data = bytes(size)
        #expect(try sandbox.run("write", "file", input: data).status == 0)
        #expect(try sandbox.run("cat", "file").output == data)
        #expect(try sandbox.run("cat", "file", "file").output == data + data)
        #expect(try sandbox.run("cat", "file", "--range", "1-5").output == data.dropFirst().prefix(5))
        #expect(try sandbox.run("cat", "file", "--range=-7").output == data.suffix(7))
        #expect(try sandbox.run("cat", "file", "--range", "2-").output == data.dropFirst(2))
    }

    @Test("A class that was asked for is given; a replaced file keeps its own")
    func classes() throws {
        try sandbox.protectedFile("file", Data("1".utf8), "unless-open")
        #expect(try sandbox.run("write", "file", input: Data("2".utf8)).status == 0)
        #expect(try sandbox.run("class", "file").text == "unless-open\n")
        let weaker = try sandbox.run("write", "file", "--class", "none", input: Data("3".utf8))
        #expect(weaker.status == 77)
        #expect(weaker.errors.contains("--allow-weaker"))
        #expect(try sandbox.run("cat", "file").text == "2")
        #expect(
            try sandbox.run("write", "file", "--class", "none", "--allow-weaker", input: Data("3".utf8)).status == 0)
        #expect(try sandbox.run("class", "file").text == "none\n")
        #expect(try sandbox.run("write", "file", "--class", "NSFileProtectionComplete").status == 0)
        #expect(try sandbox.run("class", "file").text == "complete\n")
        #expect(try sandbox.run("write", "file", "--class", "high").status == 64)
        #expect(try sandbox.run("write", "file/").status == 64)
    }

    @Test("Without --class a new file is complete, unless the directory or the configuration says otherwise")
    func defaultClass() throws {
        for verb in [["write"], ["write", "--append"]] {
            #expect(try sandbox.run(verb + ["new"], input: Data("x".utf8)).status == 0)
            #expect(try sandbox.run("class", "new").text == "complete\n")
            try sandbox.run("lock")
            #expect(try sandbox.run("cat", "new").status == 75)
            try sandbox.unlock()
            try FileManager.default.removeItem(atPath: sandbox.path("new"))
        }
        #expect(try sandbox.run("explain", "new").text.contains("class complete"))
        try sandbox.protectedFile("replaced", Data("1".utf8), "first-unlock")
        #expect(try sandbox.run("write", "replaced", input: Data("2".utf8)).status == 0)
        #expect(try sandbox.run("class", "replaced").text == "first-unlock\n")
        try FileManager.default.createDirectory(atPath: sandbox.path("inbox"), withIntermediateDirectories: false)
        #expect(try sandbox.run("class", "inbox", "first-unlock").status == 0)
        try sandbox.put("default-class = unless-open\n", at: "config/protectfs/config")
        for (name, className) in [("inbox/new", "first-unlock"), ("configured", "unless-open")] {
            #expect(try sandbox.run("write", name, input: Data("x".utf8)).status == 0)
            #expect(try sandbox.run("class", name).text == className + "\n")
        }
    }

    @Test("A file in the place of a none file is complete, unless --class none asks for that again")
    func replacedNone() throws {
        try sandbox.protectedFile("file", Data("1".utf8), "none")
        #expect(try sandbox.run("write", "file", input: Data("2".utf8)).status == 0)
        #expect(try sandbox.run("class", "file").text == "complete\n")
        try sandbox.protectedFile("other", Data("1".utf8), "none")
        try sandbox.run("lock")
        // Nobody can make a complete file now. The old one stays.
        #expect(try sandbox.run("write", "other", input: Data("2".utf8)).status == 75)
        #expect(try sandbox.run("cat", "other").text == "1")
        #expect(try sandbox.run("write", "other", "--class", "none", input: Data("3".utf8)).status == 0)
        #expect(try sandbox.run("class", "other").text == "none\n")
    }

    @Test("default-class = none counts as first-unlock, with a warning; --class none still gives none")
    func configuredNone() throws {
        try sandbox.put("default-class = none\n", at: "config/protectfs/config")
        let done = try sandbox.run("write", "new", input: Data("x".utf8))
        #expect(done.status == 0)
        #expect(done.errors.contains("is none, which is not allowed for a default; first-unlock is used"))
        #expect(try sandbox.run("class", "new").text == "first-unlock\n")
        #expect(try sandbox.run("explain", "other").text.contains("says none, which is not followed"))
        #expect(try sandbox.run("write", "asked", "--class", "none", input: Data("x".utf8)).status == 0)
        #expect(try sandbox.run("class", "asked").text == "none\n")
    }

    @Test("While locked nothing is left behind, and nothing is lost")
    func locked() throws {
        try sandbox.protectedFile("old", Data("old".utf8))
        try sandbox.run("lock")
        #expect(try sandbox.run("write", "new", "--class", "complete", input: Data("x".utf8)).status == 75)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("new")))
        #expect(try sandbox.run("write", "old", input: Data("x".utf8)).status == 75)
        #expect(try sandbox.run("cat", "old").status == 75)
        try sandbox.unlock()
        #expect(try sandbox.run("cat", "old").text == "old")
    }

    @Test("An interrupted write leaves the old file")
    func interrupted() throws {
        try sandbox.protectedFile("file", Data("old".utf8))
        let script = """
            mkfifo pipe; "$PROTECTFS" write file <pipe & exec 5>pipe
            echo new >&5; sleep 0.7; kill -TERM $!; wait $!
            """
        #expect(try sandbox.shell(script).status == 130)
        #expect(try sandbox.run("cat", "file").text == "old")
        let names = try FileManager.default.contentsOfDirectory(atPath: sandbox.root)
        #expect(!names.contains { $0.contains(".protectfs-") })
    }

    @Test("cat goes on after a failure; the status follows the order of severity")
    func severalFiles() throws {
        try sandbox.protectedFile("good")
        try sandbox.put("plain", at: "plain")
        let done = try sandbox.run("cat", "missing", "plain", "good")
        #expect(done.status == 65)
        #expect(done.text == "text\n")
        #expect(try sandbox.run("cat", "missing", "good").status == 66)
        try sandbox.run("lock")
        #expect(try sandbox.run("cat", "missing", "good").status == 75)
        #expect(try sandbox.run("cat", "good", "plain", "missing").status == 65)
        #expect(try sandbox.run("cat", ".").status == 77)
        #expect(done.errors.contains("hint: protect it first"))
    }

    @Test("cat stops at the last good byte before damage, and says where")
    func damage() throws {
        let data = bytes(400_000)
        try sandbox.protectedFile("file", data)
        let stored = try FileHandle(forUpdating: URL(fileURLWithPath: sandbox.path("file")))
        try stored.seek(toOffset: 8192 + 2 * (65_536 + 28) + 100)
        try stored.write(contentsOf: Data([0, 1, 2, 3]))
        try stored.close()
        let done = try sandbox.run("cat", "file")
        #expect(done.status == 65)
        #expect(done.output == data.prefix(131_072))
        #expect(done.errors.contains("ends at byte 131072"))
        #expect(try sandbox.run("cat", "file", "--range", "200000-").output == data.dropFirst(200_000))
    }

    @Test("A reader that has gone is no error of ours; a full disk is")
    func output() throws {
        try sandbox.protectedFile("file", bytes(2_000_000))
        let piped = try sandbox.shell("exec bash -c '\"$PROTECTFS\" cat file | head -c 5; exit ${PIPESTATUS[0]}'")
        #expect(piped.status == 128 + SIGPIPE)
        #expect(piped.errors == "")
        let ignored = try sandbox.shell(
            "trap '' PIPE; exec bash -c '\"$PROTECTFS\" cat file | true; exit ${PIPESTATUS[0]}'")
        #expect(ignored.errors == "")
        #expect(try sandbox.shell("exec \"$PROTECTFS\" cat file >/dev/full").status == 74)
        #expect(try sandbox.shell("exec \"$PROTECTFS\" cat file >&-").status == 74)
    }
}
