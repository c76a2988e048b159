import Foundation
import SystemPackage
import Testing

@Suite(
    "Logout without an agent: the script for PAM, and the command of the unit",
    .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
struct LogoutTests {
    private let user: EndToEndUser

    init() throws {
        user = try EndToEndUser.made()
        try user.unlock()
    }

    private func isUnlocked() throws -> Bool {
        try user.run(["protectfs", "status", "--json"]).text.contains("\"state\": \"unlocked\"")
    }

    /// As pam_exec(8) runs it: as root, with these variables and no others.
    ///
    /// - Parameter sessions: what loginctl(1) says; nil: it cannot say.
    private func logOut(_ type: String, _ name: String, sessions: String?) throws -> Int32 {
        let bin = user.home.appending("bin-\(UInt32.random(in: 0...UInt32.max))").string
        try FileManager.default.createDirectory(atPath: bin, withIntermediateDirectories: false)
        let said = sessions.map { "echo '\($0)'" } ?? "exit 1"
        try TestProgram.write("#!/bin/sh\n\(said)\n", at: bin + "/loginctl")
        // The script has a PATH of its own.
        let text = try Checkout.text("Examples/Logout/protectfs-logout")
        let adapted = text.replacing("\nPATH=", with: "\nPATH=\(bin):")
        #expect(adapted != text)
        try adapted.write(toFile: bin + "/protectfs-logout", atomically: true, encoding: .utf8)
        return try EndToEndRun(
            ["env", "sh", bin + "/protectfs-logout"],
            environment: [
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PAM_TYPE": type, "PAM_USER": name,
                "PROTECTFS": user.programs.appending("protectfs").string,
            ]
        ).status
    }

    @Test("The end of the last session locks; where logind cannot be asked every end does", arguments: ["12", "", nil])
    func last(sessions: String?) throws {
        #expect(try isUnlocked())
        #expect(try logOut("close_session", user.name, sessions: sessions) == 0)
        #expect(try !isUnlocked())
    }

    @Test("Another session, a beginning, and nobody's end lock nothing and keep nobody from anything")
    func others() throws {
        #expect(try logOut("close_session", user.name, sessions: "12 13") == 0)
        #expect(try logOut("open_session", user.name, sessions: "12") == 0)
        #expect(try logOut("close_session", "", sessions: "12") == 0)
        #expect(try logOut("close_session", "nobody-of-that-name", sessions: "12") == 0)
        #expect(try isUnlocked())
    }

    @Test("The unit's ExecStop locks, in a session without the user's keyring, as a service has it")
    func unit() throws {
        let unit = try Checkout.text("Examples/Logout/protectfs-logout.service")
        let stop = try #require(unit.split(separator: "\n").first { $0.hasPrefix("ExecStop=") })
        let words = stop.dropFirst("ExecStop=".count).split(separator: " ").map(String.init)
        #expect(words.first == "/usr/local/bin/protectfs")
        let done = try user.run(["protectfs"] + words.dropFirst(), in: .freshKeyring)
        #expect(done.status == 0, "\(done)")
        #expect(try !isUnlocked())
    }
}
