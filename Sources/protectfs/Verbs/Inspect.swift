import ArgumentParser
import DataProtection

/// What stored bytes say, for whoever wonders about a file.
struct Inspect: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect", abstract: "Show what is stored in a protected file's head, or in a keybag.",
        discussion: """
            Works in every lock state and on damaged files: what can be read is shown, what is bad is named, and the status is \
            65 then. Without the class key nothing of it is authenticated, and it is marked unverified. Shows no keys, not \
            even wrapped ones. A directory is taken for a keybag.
            """)

    @Argument(help: "Files, copies of keybags, keybag directories.")
    var paths: [PathsArgument]
    @Flag(help: "As JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybags = Keybags(keybag)
        let outcome = Outcome()
        var entries: [JSON] = []
        var lines = OutputLines()
        for (index, path) in paths.paths.enumerated() {
            do throws(DataProtectionError) {
                let table = try table(of: path, keybags, outcome)
                if json {
                    entries.append(.object(JSON.members(of: path) + table.members))
                } else {
                    if index > 0 { try? lines.add([]) }
                    for line in table.lines(named: path) { try? lines.add(line) }
                }
            } catch {
                outcome.record(error)
            }
        }
        if json { try JSON.array(entries).print() } else { try lines.finish() }
        try outcome.leave()
    }

    private func table(
        of path: FilePath, _ keybags: Keybags, _ outcome: Outcome
    ) throws(DataProtectionError) -> InspectionTable {
        if try NamedItem(following: path).kind == .directory || KeybagInspection.isKeybag(path) {
            let keybag = try KeybagInspection(of: path)
            for failure in keybag.failures { outcome.record(failure) }
            return InspectionTable(keybag)
        }
        var file = try FileInspection(of: path, keybag: nil)
        let keybag = file.identity.flatMap { keybags.named($0.keybag) }
        if let keybag { file = try FileInspection(of: path, keybag: keybag) }
        if let problem = file.problem {
            outcome.record(problem)
        } else if case .refused(let error) = file.authenticity {
            outcome.record(error)
        }
        return InspectionTable(file, keybag)
    }
}

/// What `inspect` prints, as text and as JSON.
struct InspectionTable {
    /// What it is of.
    let title: String
    /// Names and what stands beside them; a name of "" goes on with the line before.
    var rows: [(name: String, text: String)] = []
    var members: [(String, JSON)] = []

    init(title: String) { self.title = title }

    /// A title, then two columns.
    func lines(named path: FilePath) -> [[UInt8]] {
        let width = rows.map(\.name.count).max() ?? 0
        return [listed(path) + Array(": \(title)".utf8)]
            + rows.map { row in
                Array(("  " + row.name + String(repeating: " ", count: width + 2 - row.name.count) + row.text).utf8)
            }
    }
}

/// Bytes as hexadecimal digits.
func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
