import Foundation
import Glibc
import Testing

/// Engines that open a first-unlock secret at the start of a machine: docs/guide/UNATTENDED.md.
@Suite("Unattended first unlock: Tang, TPM", .enabled(if: Engines.whyNot == nil, "\(Engines.whyNot ?? "")"))
struct EngineTests {
    private let sandbox: CommandSandbox
    private let engines: Engines

    init() throws {
        engines = try Engines()
        sandbox = try CommandSandbox(variables: engines.variables)
        try sandbox.unlock()
        for name in ["complete", "first-unlock"] { try sandbox.protectedFile(name, Data(name.utf8), name) }
    }

    /// Makes a secret, which an engine seals to a file.
    private func seal(_ command: String, to file: String) throws {
        let passcode = Data(CommandSandbox.passcode.utf8)
        let add = "\"$PROTECTFS\" service-secret add --passcode-fd 0 \(file)"
        let done = try sandbox.shell("\(add) | { \(command); } >\(file)", input: passcode)
        #expect(done.status == 0, "\(done.errors)")
    }

    /// As after a restart of the machine: what the unit runs, and whether the files open then.
    private func start(_ script: String) throws -> (status: Int32, opens: [String]) {
        sandbox.evictKeys(of: sandbox.keybagDirectory)
        let done = try sandbox.shell("exec /bin/bash -o pipefail -c \"$1\"", ["sh", script])
        let opens = try ["complete", "first-unlock"].filter { try sandbox.run("cat", $0).status == 0 }
        return (done.status, opens)
    }

    private func attempts() throws -> Data { try sandbox.stored("keybag/attempts") }

    /// The command of the unit.
    ///
    /// - Parameter jwe: in the place of its credential.
    private static func command(_ jwe: String) throws -> String {
        let unit = try Checkout.text("Examples/Service/protectfs-first-unlock-clevis@.service")
        let begins = "ExecStart=/bin/bash -o pipefail -c '"
        let start = try #require(unit.split(separator: "\n").first { $0.hasPrefix(begins) })
        return String(start.split(separator: "'")[1]).replacing("%d/jwe", with: jwe)
            .replacing("/usr/local/bin/protectfs", with: CommandSandbox.executable)
    }

    @Test("Tang: from a cold start to an open first-unlock file, and no other; away: status 75; revoked: refused")
    func tang() throws {
        var tang = try engines.tang()
        try seal("clevis encrypt tang '\(engines.configuration)'", to: "jwe")
        let command = try Self.command("jwe")
        #expect(try start(command) == (0, ["first-unlock"]))

        let before = try attempts()
        tang.end()
        #expect(try start(command) == (75, []))
        #expect(try attempts() == before)
        tang = try engines.tang()
        #expect(try start(command) == (0, ["first-unlock"]))

        // The secret is revoked here.
        let removing = ["service-secret", "remove", "--passcode-fd", "3", "jwe"]
        #expect(try sandbox.run(removing, passcodes: Data(CommandSandbox.passcode.utf8)).status == 0)
        #expect(try start(command) == (77, []))

        // The machine is shut out there: other keys, and the old ones deleted.
        try seal("clevis encrypt tang '\(engines.configuration)'", to: "second")
        #expect(try start(Self.command("second")) == (0, ["first-unlock"]))
        try engines.replaceKeysOfTang()
        #expect(try start(Self.command("second")) == (75, []))
        tang.end()
    }

    @Test("TPM, and Tang with TPM: both must be there; another TPM opens nothing")
    func tpm() throws {
        let (tang, tpm) = (try engines.tang(), try engines.tpm())
        try seal("clevis encrypt tpm2 '{}'", to: "tpm")
        let pins = "{\"tang\":[\(engines.configuration)],\"tpm2\":[{}]}"
        try seal("clevis encrypt sss '{\"t\":2,\"pins\":\(pins)}'", to: "both")
        try seal("systemd-creds encrypt --with-key=tpm2 $DEVICE --tpm2-pcrs=7 --name=secret - -", to: "credential")
        let commands = [
            try Self.command("tpm"), try Self.command("both"),
            "systemd-creds decrypt $DEVICE --name=secret credential - | '\(CommandSandbox.executable)' unlock "
                + "--only-first-unlock --secret-fd 0",
        ]
        for command in commands {
            #expect(try start(command) == (0, ["first-unlock"]), "\(command)")
        }
        tang.end()
        #expect(try start(commands[1]) == (75, []))
        tpm.end()
        let other = try engines.tpm()
        for command in commands { #expect(try start(command) == (75, []), "\(command)") }
        other.end()
    }
}
