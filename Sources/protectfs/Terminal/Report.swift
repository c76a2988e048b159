import DataProtection

/// What is said of one path: as text a title and two columns, or a JSON object.
struct Report {
    /// What it is of.
    let title: String
    /// Names and what stands beside them; a name of "" goes on with the line before.
    var rows: [(name: String, text: String)] = []
    var members: [(String, JSON)] = []

    init(title: String) { self.title = title }

    /// Prints the reports on all paths. What fails is recorded, and the others go on.
    static func print(
        on paths: [FilePath], asJSON: Bool, recording outcome: Outcome,
        _ report: (FilePath) throws(DataProtectionError) -> Report
    ) throws {
        var objects: [JSON] = []
        var lines = OutputLines()
        for (index, path) in paths.enumerated() {
            do throws(DataProtectionError) {
                let report = try report(path)
                if asJSON {
                    objects.append(.object(JSON.members(of: path) + report.members))
                } else {
                    if index > 0 { try? lines.add([]) }
                    for line in report.lines(named: path) { try? lines.add(line) }
                }
            } catch {
                outcome.record(error)
            }
        }
        if asJSON { try JSON.array(objects).print() } else { try lines.finish() }
        try outcome.leave()
    }

    private func lines(named path: FilePath) -> [[UInt8]] {
        let width = rows.map(\.name.count).max() ?? 0
        return [listed(path) + Array(": \(printable(title))".utf8)]
            + rows.map { row in
                let space = String(repeating: " ", count: width + 2 - row.name.count)
                return Array("  \(row.name)\(space)\(printable(row.text))".utf8)
            }
    }
}
