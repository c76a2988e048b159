import FaultServer
import Foundation
import Testing

@testable import protectfs_download

@Suite("download: exit status")
struct DownloadExitStatusTests {
    private let bed: DownloadSandbox

    init() throws { bed = try DownloadSandbox() }

    /// A row for every case; the switch below does not compile without one for a new case.
    private static let errors: [(DownloadError, Int32)] = [
        (.invalidRequest(reason: ""), 64), (.targetExists("/a"), 73), (.noDirectory("/a"), 66),
        (.unknownDownload(id), 66), (.wrongState(id, .finished), 75),
        (.failed(DownloadFailure(.checksum, "")), 65), (.cancelled(id), 130), (.unknownIntegrityKey(id: "k"), 78),
        (.retiredIntegrityKey(id: "k"), 78), (.weakIntegrityKey(id: "k", bytes: 1), 64),
        (.integrityKeyExists(id: "k"), 73), (.beforeFirstUnlock("/a"), 75), (.alreadyRunning("/a"), 75),
        (.storeDamaged("/a", reason: ""), 65), (.storeKeyLost("/a"), 65), (.storeNewer("/a"), 65),
        (.store("/a", code: 13, reason: "full"), 74), (.protection(.notProtected("/a")), 65),
        (.cryptography(.authenticationFailed), 70), (.unusableIdentity(.wrongPassphrase), 77),
        (.targetInList("/a", id), 73),
    ]
    private static let id = DownloadID("00112233445566778899aabbccddeeff")!

    private static func row(of error: DownloadError) -> Int {
        switch error {
        case .invalidRequest: 0
        case .targetExists: 1
        case .noDirectory: 2
        case .unknownDownload: 3
        case .wrongState: 4
        case .failed: 5
        case .cancelled: 6
        case .unknownIntegrityKey: 7
        case .retiredIntegrityKey: 8
        case .weakIntegrityKey: 9
        case .integrityKeyExists: 10
        case .beforeFirstUnlock: 11
        case .alreadyRunning: 12
        case .storeDamaged: 13
        case .storeKeyLost: 14
        case .storeNewer: 15
        case .store: 16
        case .protection: 17
        case .cryptography: 18
        case .unusableIdentity: 19
        case .targetInList: 20
        }
    }

    @Test("Every error of the library has its status, and says what is wrong on one line")
    func everyError() {
        for (index, (error, status)) in Self.errors.enumerated() {
            #expect(Self.row(of: error) == index)
            #expect(error.exitStatus.rawValue == status, "\(error)")
            #expect(!error.message.contains("\n"))
        }
    }

    @Test("Every way in which a download fails has its status")
    func everyFailure() {
        let statuses: [DownloadFailure.Kind: Int32] = [
            .checksum: 65, .unusable: 65, .lost: 65, .damaged: 65, .untrusted: 76, .credentials: 77, .refused: 75,
            .authenticationUnsupported: 77,
            .gaveUp: 75, .connection: 75, .disk: 74, .targetExists: 73, .integrityKey: 78,
        ]
        for kind in DownloadFailure.Kind.allCases {
            #expect(DownloadFailure(kind, "").exitStatus.rawValue == statuses[kind], "\(kind)")
        }
        for (status, exitStatus) in [(404, 66), (410, 66), (400, 75), (501, 75)] {
            #expect(DownloadFailure(.refused, "", status: status).exitStatus.rawValue == Int32(exitStatus), "\(status)")
        }
    }

    @Test("A server's text moves no cursor: control characters are escaped")
    func words() {
        let failure = DownloadFailure(.unusable, "encoded (\u{1B}[2Jgzip\u{202E})\nsecond ü")
        #expect(failure.words == "encoded (\\u{1b}[2Jgzip\\u{202e}); second ü")
    }

    @Test("65: another checksum; nothing has the file's name")
    func checksum() throws {
        try bed.server.answer("/a", Answer(length: 1000))
        let done = try bed.get("/a", "--sha256", String(repeating: "0", count: 64))
        #expect(done.status == 65, "\(done.errors)")
        #expect(!FileManager.default.fileExists(atPath: bed.sandbox.path("a")))
    }

    @Test("76: not trusted; no request reached the server")
    func untrusted() throws {
        let done = try bed.download("get", bed.server.url("/a").absoluteString)
        #expect(done.status == 76, "\(done.errors)")
        #expect(done.errors.contains("hint: see what it presents: protectfs download probe"))
        #expect(try bed.server.received().isEmpty)
    }

    @Test("76: a redirect leads to a server that is not trusted; the hint names that server")
    func untrustedElsewhere() throws {
        _ = try bed.server.makeCertificate("named", ["issuer": "authority", "names": ["downloads.test"]])
        let port = try bed.server.listen("named", chain: ["named"])
        try bed.server.answer("/a", .redirect(to: bed.server.url("/b", port: port).absoluteString))
        let done = try bed.get("/a")
        #expect(done.status == 76, "\(done.errors)")
        let place = "localhost:\(port)"
        let words = ["hint: a redirect led to ", place, "; see what it presents: protectfs download probe ", place]
        #expect(done.errors.replacing("'", with: "").contains(words.joined()), "\(done.errors)")
        #expect(try bed.server.requests().map(\.target) == ["/a"])
    }

    @Test("75: given up; 66: the server has no such file")
    func givenUp() throws {
        try bed.server.answer("/a", Answer(status: 503))
        let done = try bed.get("/a", "--retries", "1")
        #expect(done.status == 75)
        #expect(done.errors.contains("given up after 1 try: "), "\(done.errors)")
        let resume = try #require(done.errors.firstMatch(of: #/protectfs download resume ([0-9a-f]+)/#)?.1)
        #expect(try bed.get("/missing").status == 66)
        try bed.server.answer("/a", Answer(length: 1000))
        #expect(try bed.download("resume", String(resume)).status == 0)
        #expect(try bed.download("run", "--until-idle").status == 0)
        #expect(try bed.sandbox.run("cat", "a").output.count == 1000)
    }

    @Test("75: an upload that is given up stays in the list, and goes on when it is told to")
    func uploadGivenUp() throws {
        let url = bed.server.url("/a").absoluteString
        try bed.server.answer("/a", Answer(status: 503), Answer(status: 201))
        #expect(try bed.sandbox.run(["write", "secret"], input: Data("hello".utf8)).status == 0)
        let done = try bed.download("upload", "secret", url, "--only-anchor", "authority.pem", "--retries", "1")
        #expect(done.status == 75 && done.errors.contains("it stays in the list; to continue: "), "\(done.errors)")
        let id = try #require(done.errors.firstMatch(of: #/protectfs download resume ([0-9a-f]+)/#)?.1)
        #expect(try bed.download("resume", String(id)).status == 0)
        #expect(try bed.download("run", "--until-idle").status == 0)
        #expect(try bed.list().map { $0["state"] as? String } == ["finished"])
        #expect(try bed.server.requests().count == 2)
    }

    @Test("75, at once: a host that has no address; the download is paused, and told how it goes on")
    func unknownHost() throws {
        let done = try bed.download("get", "https://does-not-exist.invalid/a", "--retries", "50")
        #expect(done.status == 75, "\(done.errors)")
        // The first try was the last one, and no other was waited for.
        #expect(try bed.list().map { $0["attempts"] as? Int } == [1])
        #expect(!done.errors.contains("next try"))
        #expect(done.errors.contains("no such host: does-not-exist.invalid"))
        #expect(done.errors.contains("or forget it: protectfs download cancel "))
        #expect(try bed.list().map { $0["state"] as? String } == ["paused"])
    }

    @Test("A server that refuses connections: the reason and the next try are printed, once")
    func refusedConnection() throws {
        let done = try bed.download("get", "https://localhost:1/a", "--retries", "3")
        #expect(done.status == 75, "\(done.errors)")
        let notes = done.errors.split(separator: "\n").filter { $0.hasPrefix("protectfs: note: a: ") }
        #expect(notes.count == 1 && notes[0].contains("; next try at "), "\(done.errors)")
    }

    @Test("A dead host: the reason and the next try are printed while get waits for that try, not at its end")
    func deadHost() throws {
        let words = ["download", "get", "https://localhost:1/a", "--retries", "50"]
        let get = bed.sandbox.start(CommandSandbox.executable, words, input: FileHandle.nullDevice)
        let errors = Pipe()
        get.standardError = errors
        try get.run()
        var said = Data()
        while !String(decoding: said, as: UTF8.self).contains("; next try at ") {
            let more = errors.fileHandleForReading.availableData
            if more.isEmpty { break }
            said += more
        }
        let text = String(decoding: said, as: UTF8.self)
        #expect(text.hasPrefix("protectfs: note: a: ") && text.contains("; next try at "), "\(text)")
        #expect(get.isRunning, "49 tries are left")
        kill(get.processIdentifier, SIGINT)
        get.waitUntilExit()
        #expect(get.terminationStatus == 130)
    }

    @Test("64: http:// names the option that allows it")
    func plainHTTP() throws {
        let done = try bed.download("get", "http://localhost/a")
        #expect(done.status == 64 && done.errors.contains("hint: to allow it for this download: --allow-plain-http"))
    }

    @Test("73: something has the name; --replace replaces it")
    func exists() throws {
        try bed.server.answer("/a", Answer(length: 1000))
        try bed.sandbox.put("mine", at: "a")
        #expect(try bed.get("/a").status == 73)
        #expect(try bed.sandbox.stored("a") == Data("mine".utf8))
        #expect(try bed.get("/a", "--replace").status == 0)
        #expect(try bed.sandbox.run("cat", "a").output.count == 1000)
    }

    @Test("66: no directory; 65: an anchor that is none")
    func others() throws {
        #expect(try bed.get("/a", "-d", "missing").status == 66)
        try bed.sandbox.put("nothing", at: "garbage.pem")
        #expect(try bed.download("get", "https://localhost/a", "--anchor", "garbage.pem").status == 65)
    }

    @Test("75: run beside another run; get leaves it to that one, which goes through the proxy of the get; SIGTERM: 0")
    func besideAnother() async throws {
        for name in ["a", "b"] { try bed.server.answer("/\(name)", Answer(length: 1000)) }
        let url = bed.server.url("/a").absoluteString
        #expect(try bed.download("add", url, "--only-anchor", "authority.pem").status == 0)
        let run = bed.sandbox.start(CommandSandbox.executable, ["download", "run"], input: FileHandle.nullDevice)
        try run.run()
        // What it has done shows that it is there.
        while try bed.list().first?["state"] as? String != "finished" { try await Task.sleep(for: .milliseconds(50)) }
        #expect(try bed.download("run").status == 75)
        let proxy = "socks5h://localhost:\(bed.server.socksPort)"
        #expect(try bed.get("/b", "--proxy", proxy).status == 0)
        #expect(try bed.server.proxied().count == 1)
        #expect(run.isRunning)
        kill(run.processIdentifier, SIGTERM)
        run.waitUntilExit()
        #expect(run.terminationReason == .exit && run.terminationStatus == 0)
    }

    @Test(
        "64: usage",
        arguments: [
            ["get"], ["get", "http://localhost/a"], ["get", "ftp://localhost/a"], ["get", "https://u:p@localhost/a"],
            ["get", "https://localhost/"], ["get", "https://localhost/%2e%2e"], ["get", "https://localhost/.profile"],
            ["get", "https://localhost/a%2fb"], ["get", "https://localhost/a", "--no-host-check"],
            ["get", "https://localhost/a", "--sha256", "00"], ["get", "https://localhost/a", "--md5", "x"],
            ["get", "https://localhost/a", "--pin", "00"], ["get", "https://localhost/a", "--retries", "0"],
            ["get", "https://localhost/a", "https://localhost/b", "-o", "c"],
            ["get", "https://localhost/a", "-o", "new/"], ["add", "https://localhost/a", "--output=new/."],
            ["get", "https://localhost/a", "-o", ".."],
            ["get", "https://localhost/a", "--max-size", "1T"],
            ["get", "https://localhost/a", "--proxy", "https://localhost:1"], ["pause", "ab"], ["nonsense"],
        ])
    func usage(words: [String]) throws {
        let done = try bed.sandbox.run(["download"] + words)
        #expect(done.status == 64, "\(done.errors)")
        #expect(done.errors.hasPrefix("protectfs: error: "))
    }
}
