import ArgumentParser
import DataProtection

/// Looks for what would let somebody in, or keep the user out.
///
/// Only a problem has status 78, because many machines live with warnings. What cannot be found out is *unknown*, never guessed.
struct Doctor: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Check the keybag, keyring and machine, and suggest fixes.",
        discussion: """
            Each line is ok, unknown (with the reason), a warning, or a problem. Works without a keybag and needs no \
            passcode. Changes nothing, except that a test key is added to the kernel keyring and removed again. The \
            exit status is 78 if there is a problem.
            """)

    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let findings = DoctorFacts.read(keybag: keybag.location).findings
        if json {
            try JSON.array(findings.map(\.members)).print()
        } else {
            var lines = OutputLines()
            for line in findings.flatMap({ $0.lines }) { try lines.add(Array(printable(line).utf8)) }
            try lines.finish()
        }
        if findings.contains(where: { $0.level == .problem }) { throw ExitStatus.configuration }
    }
}

extension DoctorFacts {
    /// All checks, those of the keybag first.
    var findings: [DoctorFinding] { keybagFindings + keyringFindings + systemFindings }
}

extension DoctorFinding {
    fileprivate var lines: [String] {
        let word = level.rawValue + String(repeating: " ", count: 9 - level.rawValue.count)
        return ["\(word)\(check): \(text)"] + (fix.map { ["         fix: \($0)"] } ?? [])
    }

    fileprivate var members: JSON {
        .object([
            ("check", .string(check)), ("level", .string(level.rawValue)), ("text", .string(text)),
            ("fix", fix.map { .string($0) } ?? .null),
        ])
    }
}
