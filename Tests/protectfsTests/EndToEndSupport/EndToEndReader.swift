import Glibc
import SystemPackage

/// An application with an open file, in a process and a session of its own: the worker, spoken to by lines.
final class EndToEndReader {
    private let process: EndToEndProcess
    private let channel: FileDescriptor
    private var received: [UInt8] = []

    init(_ user: EndToEndUser, in session: EndToEndUser.Session) throws {
        let (own, others) = try FileDescriptor.socketPair()
        channel = own
        defer { try? others.close() }
        process = try EndToEndProcess(
            user.words(["storm-worker", user.keybag.directory.string, "serve"], in: session),
            environment: user.environment, input: others, output: others, errors: .standardError)
    }

    deinit {
        // At the end of its input it leaves by itself, and whoever stands between us with it.
        try? channel.close()
        _ = process.wait()
    }

    /// `open r PATH`, `read OFFSET COUNT`, `size`, `close`: answered by `ok …`, or `error CASE…`.
    func ask(_ question: String) throws -> String {
        try channel.writeAll(Array("\(question)\n".utf8))
        while true {
            if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
                defer { received.removeSubrange(...end) }
                return String(decoding: received[..<end], as: UTF8.self)
            }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = try buffer.withUnsafeMutableBytes { try channel.read(into: $0) }
            if count == 0 { return "the reader has ended" }
            received += buffer[..<count]
        }
    }
}
