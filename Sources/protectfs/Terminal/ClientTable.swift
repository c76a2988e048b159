import DataProtection

/// The programs that have protected files of a keybag open, as a table.
struct ClientTable {
    private let clients: [KeybagClient]

    init(_ clients: [KeybagClient]) { self.clients = clients }

    /// A title and a line each; or that there is nobody.
    var lines: [[UInt8]] {
        guard !clients.isEmpty else { return [Array("no program has complete or unless-open files open".utf8)] }
        let rows =
            [["PROCESS", "COMPLETE", "UNLESS-OPEN", "LAST LOCK", "PROGRAM"]]
            + clients.map { client in
                [
                    "\(client.pid)", "\(client.completeHandles)", "\(client.unlessOpenHandles)",
                    client.hasAnswered ? "answered" : "no answer",
                    quoted(client.program) + (client.plaintext.map { ", with plaintext of \($0)" } ?? ""),
                ]
            }
        let widths = (0..<4).map { column in rows.map { $0[column].count }.max()! }
        return rows.map { row in
            let cells = zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
            return Array(printable((cells + [row[4]]).joined(separator: "  ")).utf8)
        }
    }
}
