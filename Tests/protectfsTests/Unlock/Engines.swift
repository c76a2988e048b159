import FaultServer
import Foundation
import Glibc
import SystemPackage

/// A Tang server and a TPM, simulated by swtpm(8), both on loopback and of this test alone.
struct Engines {
    private let directory: EndToEndDirectory
    private var root: String { directory.path.string }
    private let tangPort: Int
    /// Of the TPM; its control channel has the next one.
    private let tpmPort: Int

    private static let programs = [
        "/usr/bin/clevis", "/usr/libexec/tangd", "/usr/libexec/tangd-keygen", "/usr/bin/systemd-socket-activate",
        "/usr/bin/systemd-creds", "/usr/bin/swtpm", "/usr/bin/tpm2_createprimary", "/usr/bin/curl",
    ]

    /// Nil if all that they need is here.
    static let whyNot: String? = programs.first { access($0, X_OK) != 0 }.map { "\($0) is not here" }

    init() throws {
        directory = try EndToEndDirectory()
        (tangPort, tpmPort) = (try Loopback.freePort(), try Loopback.freePort())
        for name in ["tang", "tpm"] {
            try FileManager.default.createDirectory(atPath: "\(root)/\(name)", withIntermediateDirectories: true)
        }
        try Self.run("/usr/libexec/tangd-keygen", ["\(root)/tang"])
    }

    /// What commands need in their environment to find the TPM.
    var variables: [String: String] {
        let place = "swtpm:host=127.0.0.1,port=\(tpmPort)"
        return ["TPM2TOOLS_TCTI": place, "DEVICE": "--tpm2-device=\(place)"]
    }

    /// For `clevis encrypt tang`. The advertisement was fetched from the server, which is the test's own.
    var configuration: String { "{\"url\":\"http://127.0.0.1:\(tangPort)\",\"adv\":\"\(root)/adv.jws\"}" }

    /// Starts the Tang server, and fetches its advertisement.
    func tang() throws -> EndToEndProcess {
        let words = ["-l", "127.0.0.1:\(tangPort)", "-a", "--inetd", "/usr/libexec/tangd", "\(root)/tang"]
        let server = try Self.start("/usr/bin/systemd-socket-activate", words)
        // Each connection is one more process of its own: curl(1) may ask only when somebody listens.
        guard try Loopback.isServed(tangPort, while: server.isRunning) else {
            throw CommandSandbox.Unexpected("the Tang server does not answer")
        }
        let address = "http://127.0.0.1:\(tangPort)/adv"
        try Self.run("/usr/bin/curl", ["-sf", "--max-time", "20", address, "-o", "\(root)/adv.jws"])
        return server
    }

    /// Gives the Tang server other keys, and deletes the old ones.
    func replaceKeysOfTang() throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: "\(root)/tang") {
            try FileManager.default.removeItem(atPath: "\(root)/tang/\(name)")
        }
        try Self.run("/usr/libexec/tangd-keygen", ["\(root)/tang"])
    }

    /// Starts a TPM that nobody has used.
    func tpm() throws -> EndToEndProcess {
        let state = "\(root)/tpm/\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
        let words = [
            "socket", "--tpm2", "--tpmstate", "dir=\(state)", "--flags", "not-need-init,startup-clear",
            "--server", "type=tcp,port=\(tpmPort),bindaddr=127.0.0.1",
            "--ctrl", "type=tcp,port=\(tpmPort + 1),bindaddr=127.0.0.1",
        ]
        let server = try Self.start("/usr/bin/swtpm", words)
        guard try Loopback.isServed(tpmPort, while: server.isRunning) else {
            throw CommandSandbox.Unexpected("swtpm does not answer")
        }
        return server
    }

    // MARK: processes

    private static func start(_ program: String, _ words: [String]) throws -> EndToEndProcess {
        let nothing = try NamelessFile()
        defer { withExtendedLifetime(nothing) {} }
        return try EndToEndProcess(
            [program] + words, environment: [:], input: nothing.descriptor, output: nothing.descriptor,
            errors: nothing.descriptor)
    }

    private static func run(_ program: String, _ words: [String]) throws {
        let status = try start(program, words).wait()
        guard status == 0 else { throw CommandSandbox.Unexpected("\(program) ended with status \(status)") }
    }
}
