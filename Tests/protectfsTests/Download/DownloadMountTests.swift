import FaultServer
import Foundation
import Testing

/// Downloads into a directory that a mount shows, and uploads from it.
@Suite("download: in a mount", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct DownloadMountTests {
    private let bed: MountBed
    private let server: FaultServer
    private var sandbox: CommandSandbox { bed.sandbox }

    init() throws {
        (bed, server) = (try MountBed(), try FaultServer())
        try sandbox.put(String(decoding: server.authority, as: UTF8.self), at: "authority.pem")
    }

    private func words(_ verb: String, _ path: String, _ options: String...) -> [String] {
        ["download", verb, "--only-anchor", "authority.pem"] + options + [server.url(path).absoluteString]
    }

    @Test("Finished files are protected once, and the mount shows them", arguments: ["point", "d"])
    func finished(directory: String) throws {
        if directory == "d" { try bed.mountInPlace("--read-write") } else { try bed.mount("--read-write") }
        for (name, length) in [("small", 1_000), ("large", 3_000_000)] {
            try server.answer("/\(name)", Answer(length: length))
            let done = try sandbox.run(words("get", "/\(name)", "--directory", directory))
            #expect(done.status == 0 && done.errors == "", "\(done.errors)")
            #expect(try sandbox.shell("cat \(directory)/\(name)").output == Data(Answer.pattern(0..<length)))
            #expect(try sandbox.run("class", "\(directory)/\(name)").text == "complete\n")
        }
        let again = try sandbox.run(words("get", "/small", "--output", "\(directory)/small"))
        #expect(again.status == 73 && again.errors.contains("/d/small"), "\(again.errors)")
        #expect(!again.errors.contains("/proc/"))
        #expect(try sandbox.shell("ls -A \(directory) | grep -c protectfs-download").text == "0\n")
    }

    @Test("A file to upload may be named in a mount", arguments: ["point", "d"])
    func upload(directory: String) throws {
        if directory == "d" { try bed.mountInPlace() } else { try bed.mount() }
        try server.answer("/up", Answer(length: 0))
        let url = server.url("/up").absoluteString
        let done = try sandbox.run(
            "download", "upload", "\(directory)/first-unlock", url, "--only-anchor", "authority.pem")
        #expect(done.status == 0, "\(done.errors)")
        #expect(try server.requests().last?.body == Data("c\n".utf8))
    }

    @Test("Its directory is mounted over itself, or unmounted, while it comes", arguments: [true, false])
    func meanwhile(isMounted: Bool) async throws {
        try server.answer("/f", Answer(length: 3_000_000).with(\.holdAfter, 1_500_000))
        if !isMounted { try bed.mountInPlace() }
        let get = sandbox.start(
            CommandSandbox.executable, words("get", "/f", "--output", "d/f"), input: FileHandle.nullDevice)
        try get.run()
        #expect(try await server.waitUntilHeld())
        if isMounted { try bed.mountInPlace() } else { #expect(try sandbox.run("unmount", "d").status == 0) }
        #expect(try sandbox.run("lock").status == 0)
        try server.release()
        get.waitUntilExit()
        #expect(get.terminationStatus == 0)
        try sandbox.unlock()
        #expect(try sandbox.run("cat", "d/f").output == Data(Answer.pattern(0..<3_000_000)))
        #expect(try waits { try sandbox.run("class", "d/f").text == "complete\n" })
        #expect(try sandbox.shell("ls -A d | grep -c protectfs-download").text == "0\n")
    }

    @Test("A mount whose server is stopped: a message after three seconds, and nothing is added")
    func stopped() throws {
        try bed.mountInPlace("--read-write")
        let done = try bed.script(
            """
            stop(server())
            try: print(subprocess.run([program, *sys.argv[1:]], stderr=subprocess.PIPE).stderr.decode())
            finally: os.kill(server(), signal.SIGCONT)
            """, words("add", "/f", "--output", "d/f"), isInside: false)
        #expect(done.text.contains("does not say where its files are stored"), "\(done.text) \(done.errors)")
        #expect(try sandbox.run("download", "list").text == "")
    }
}
