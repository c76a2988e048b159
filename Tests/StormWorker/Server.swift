import DataProtection
import FoundationEssentials
import StormScript
import SystemPackage

/// One handle on one file, used by another process over stdin and stdout; and others, which stay open and can be read.
///
///     open r PATH | open w PATH | STEP | read OFFSET COUNT | size | close | hold PATH | held OFFSET COUNT
///     new PATH | add COUNT SEED | finish
///     put COUNT PATH | get PATH
///
/// Answers `ok …`, or `error CASE` with the name of the ``DataProtectionError``, or of its layer's failure.
final class Server {
    private let keybag: Keybag
    private var file: ProtectedFile?
    private var held: [ProtectedFile] = []
    /// Written from beginning to end.
    private var new: ProtectedFileWriter?

    init(keybag: Keybag) { self.keybag = keybag }

    func run() {
        while let line = readLine() {
            do {
                say("ok \(try answer(line))")
            } catch DataProtectionError.because(let failure) {
                say("error \(failure)")
            } catch {
                say("error \(error)")
            }
        }
    }

    private func answer(_ line: String) throws -> String {
        let words = line.split(separator: " ", maxSplits: 2).map(String.init)
        switch words[0] {
        case "open":
            file = try ProtectedFile.open(
                FilePath(words[2]), words[1] == "w" ? .readWrite : .readOnly, keybag: keybag)
        case "read":
            let bytes = try opened().bytes(at: Int64(words[1])!, count: Int(words[2])!)
            return "\(bytes.count) \(checksum(bytes))"
        case "hold":
            let path = FilePath(String(line.dropFirst(5)))
            held.append(try ProtectedFile.open(path, .readWrite, keybag: keybag))
        case "held":
            let bytes = try held.map { try $0.bytes(at: Int64(words[1])!, count: Int(words[2])!) }
            return bytes.map { "\($0.count) \(checksum($0))" }.joined(separator: " ")
        case "new": new = try ProtectedFileWriter(FilePath(String(line.dropFirst(4))), as: .complete, keybag: keybag)
        case "add":
            guard let new, let seed = UInt64(words[2]), let count = Int(words[1]) else { throw Unknown(line: line) }
            try pattern(seed, count: count).withUnsafeBytes { try new.append($0) }
        case "finish":
            guard let new else { throw Unknown(line: line) }
            try new.finish()
        case "put":
            guard let count = Int(words[1]) else { throw Unknown(line: line) }
            try Data(pattern(1, count: count)).write(
                to: URL(fileURLWithPath: words[2]), options: .completeFileProtection, protectedBy: keybag)
        case "get":
            let bytes = try Data(contentsOf: URL(fileURLWithPath: String(line.dropFirst(4))), protectedBy: keybag)
            return "\(bytes.count) \(checksum(Array(bytes)))"
        case "size": return "\(try opened().size())"
        case "close":
            try opened().close()
            file = nil
        default:
            guard let step = FileStep(line) else { throw Unknown(line: line) }
            try opened().perform(step)
        }
        return ""
    }

    private func opened() throws -> ProtectedFile {
        guard let file else { throw Unknown(line: "nothing is open") }
        return file
    }

    private struct Unknown: Error { let line: String }
}

extension ProtectedFile {
    /// Up to `count` bytes from `offset`.
    func bytes(at offset: Int64, count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let done = try bytes.withUnsafeMutableBytes { try read(into: $0, at: offset) }
        return Array(bytes.prefix(done))
    }

    /// Does what `step` says.
    func perform(_ step: FileStep) throws {
        switch step {
        case .write(let offset, let count, let seed):
            try pattern(seed, count: count).withUnsafeBytes { try write($0, at: Int64(offset)) }
        case .append(let count, let seed):
            let end = try size()
            try pattern(seed, count: count).withUnsafeBytes { try write($0, at: end) }
        case .truncate(let size): try truncate(to: Int64(size))
        case .sync: try sync()
        }
    }
}
