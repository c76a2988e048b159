import DataProtection
import Glibc

/// A question through pinentry: lines of the Assuan protocol over its standard streams.
///
/// The passcode comes in lines `D …`, in which `%`, carriage return and newline are written as `%25`, `%0D`, `%0A`.
/// - SeeAlso: The Assuan manual, "Server responses"; the pinentry manual, "Protocol".
struct Pinentry {
    /// Bytes of a line, the newline not counted (ASSUAN_LINELENGTH).
    private static let lineLength = 1000
    private let program: FilePath

    init(_ program: FilePath) { self.program = program }

    /// Asks.
    ///
    /// - Parameter limit: bytes; a longer answer is cut one byte behind it.
    /// - Throws: status 130 if the question was cancelled, 71 if pinentry failed.
    func ask(_ question: String, upTo limit: Int) throws(Failure) -> SecretBytes {
        let pinentry = try StartedProgram(program)
        var answer = Answer(limit: limit)
        try read(from: pinentry, into: &answer)  // its greeting
        for option in terminalOptions {
            // One that it does not know is no reason not to ask.
            _ = try? command(option, pinentry, &answer)
        }
        try command("SETTITLE protectfs", pinentry, &answer)
        try command("SETPROMPT \(question)", pinentry, &answer)
        answer = Answer(limit: limit)
        try command("GETPIN", pinentry, &answer)
        return answer.passcode.slice(0..<answer.count)
    }

    /// For a pinentry without windows: the terminal, if one of our streams is one.
    private var terminalOptions: [String] {
        guard let name = [0, 1, 2].lazy.compactMap({ ttyname($0) }).first else { return [] }
        let type = getenv("TERM").map { ["OPTION ttytype=" + String(cString: $0)] } ?? []
        return ["OPTION ttyname=" + String(cString: name)] + type
    }

    /// Sends a line, and reads what is answered.
    private func command(_ line: String, _ pinentry: StartedProgram, _ answer: inout Answer) throws(Failure) {
        let bytes = Array((line + "\n").utf8)
        // A line is shorter than what a pipe takes at once.
        guard write(pinentry.input, bytes, bytes.count) == bytes.count else { throw ended }
        try read(from: pinentry, into: &answer)
    }

    /// Reads to `OK`.
    private func read(from pinentry: StartedProgram, into answer: inout Answer) throws(Failure) {
        while true {
            let line = try SecretLine.read(from: pinentry.output, upTo: Self.lineLength)
            if line.count == 0 { throw ended }
            if line.begins(with: "D ") {
                answer.append(line)
            } else if line.begins(with: "OK") {
                return
            } else if line.begins(with: "ERR ") {
                throw refusal(line.withUnsafeBytes { String(decoding: $0.dropFirst(4), as: UTF8.self) })
            }
            // What is left are comments and status lines.
        }
    }

    private var ended: Failure { Failure(.systemRefused, "\(quoted(program)) ended without an answer") }

    /// - Parameter words: an error's number, whose lower 16 bits say which (gpg-error(1)), and its text.
    private func refusal(_ words: String) -> Failure {
        let parts = words.split(separator: " ", maxSplits: 1)
        let code = parts.first.flatMap { UInt32($0) }.map { $0 & 0xFFFF }
        // GPG_ERR_TIMEOUT, GPG_ERR_CANCELED, GPG_ERR_FULLY_CANCELED.
        guard let code, [62, 99, 198].contains(code) else {
            return Failure(.systemRefused, "\(quoted(program)): \(parts.last ?? "no reason given")")
        }
        return Failure(.interrupted, "\(quoted(program)) gave no passcode: the question was not answered")
    }
}

/// What the lines `D …` have said so far.
private struct Answer: ~Copyable {
    var passcode: SecretBytes
    var count = 0

    init(limit: Int) { passcode = SecretBytes(zeroed: limit + 1) }

    /// Appends what follows `D `, without its escapes; what does not fit is cut.
    mutating func append(_ line: borrowing SecretBytes) {
        let before = count
        count = line.withUnsafeBytes { line in
            passcode.withUnsafeMutableBytes { passcode in
                var (next, end) = (2, before)
                while next < line.count, end < passcode.count {
                    if line[next] == UInt8(ascii: "%"), next + 2 < line.count,
                        let high = Self.hexDigit(line[next + 1]), let low = Self.hexDigit(line[next + 2])
                    {
                        passcode[end] = high << 4 | low
                        next += 3
                    } else {
                        passcode[end] = line[next]
                        next += 1
                    }
                    end += 1
                }
                return end
            }
        }
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}

extension SecretBytes {
    /// Whether the first bytes are these, which are no secret.
    fileprivate borrowing func begins(with text: String) -> Bool { withUnsafeBytes { $0.starts(with: text.utf8) } }
}
