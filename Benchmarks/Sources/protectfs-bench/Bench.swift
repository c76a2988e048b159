import DataProtection
import Glibc

/// `protectfs-bench ROW …`: what Benchmarks/run measures inside one process. Prints one line of JSON.
@main
enum Bench {
    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst().map { String($0) }
        switch (arguments.first, arguments.count) {
        case ("seal", 3): try Memory.seal(chunk: Int(arguments[1])!, seconds: Double(arguments[2])!)
        case ("open", 3): try Memory.open(chunk: Int(arguments[1])!, seconds: Double(arguments[2])!)
        case ("small-files", 3): try Files.create(in: FilePath(arguments[1]), count: Int(arguments[2])!)
        case ("small-reads", 2): try Files.smallReads(in: FilePath(arguments[1]))
        case ("handles", 2): try Files.handles(in: FilePath(arguments[1]))
        case ("hold", 3): try Files.hold(in: FilePath(arguments[1]), count: Int(arguments[2])!)
        case ("append", 2): try Durable.append(in: FilePath(arguments[1]))
        case ("secrets", 4):
            try Secrets.measure(arguments[1], in: FilePath(arguments[2]), count: Int(arguments[3])!)
        case ("overwrite", 2): try Durable.overwrite(in: FilePath(arguments[1]))
        default:
            print("usage: see Benchmarks/run")
            exit(64)
        }
    }
}

/// Seconds per operation, one number a round.
struct Rounds {
    private var ours: [Double] = []
    private var peers: [Double] = []

    /// Runs ours, and the peer if there is one, in turns; each call does `operations` operations.
    init(
        _ rounds: Int, operations: Int, ours body: () throws -> Void, peer: (() throws -> Void)? = nil
    ) throws {
        for _ in 0..<rounds {
            ours.append(try Self.seconds(body) / Double(operations))
            if let peer { peers.append(try Self.seconds(peer) / Double(operations)) }
        }
    }

    func report() {
        let peer = peers.isEmpty ? "" : ", \"peer\": \(peers)"
        print("{\"seconds\": \(ours)\(peer)}")
    }

    static func seconds(of clock: clockid_t = CLOCK_MONOTONIC, _ body: () throws -> Void) rethrows -> Double {
        let start = now(clock)
        try body()
        return now(clock) - start
    }

    static func now(_ clock: clockid_t = CLOCK_MONOTONIC) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// A plain file, for the peers.
struct PlainFile {
    let descriptor: Int32

    init(_ path: FilePath, flags: Int32) {
        descriptor = open(path.string, flags | O_CLOEXEC, 0o600)
        precondition(descriptor >= 0)
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        precondition(pwrite(descriptor, bytes.baseAddress, bytes.count, offset) == bytes.count)
    }

    func read(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) {
        precondition(pread(descriptor, bytes.baseAddress, bytes.count, offset) == bytes.count)
    }

    func sync() { precondition(fsync(descriptor) == 0) }

    func close() { _ = Glibc.close(descriptor) }
}
