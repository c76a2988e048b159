import Foundation
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Another process under strace(1): how often it asks the kernel for class keys.
@Suite(
    "Class keys are fetched once for each operation",
    .enabled(if: StormProcess.canKillAtCalls, "strace(1) is not here, or may not trace"))
struct KeyFetchTests {
    private let bed: FileTestBed
    private let log: FilePath
    private let worker: StormProcess

    init() throws {
        bed = try FileTestBed()
        log = bed.bag.scratchPath.appending("calls")
        worker = try StormProcess(
            bed.keybag.directory, ["serve"],
            wrapper: ["strace", "-qq", "-f", "-o", log.string, "-e", "trace=keyctl", "-e", "signal=none"])
        _ = try worker.ask("size")  // when it answers, strace(1) has made the log
    }

    /// How often it has read a key until now. strace(1) writes each line before the call returns.
    private func readsUntilNow() throws -> Int {
        let text = try String(contentsOf: log.url, encoding: .utf8)
        return text.split(separator: "\n").count { $0.contains("keyctl(KEYCTL_READ,") }
    }

    /// How often it reads a key to do what these lines say.
    private func reads(_ lines: String..., at location: SourceLocation = #_sourceLocation) throws -> Int {
        let before = try readsUntilNow()
        for line in lines {
            let answer = try worker.ask(line)
            #expect(answer.hasPrefix("ok"), "\(line): \(answer)", sourceLocation: location)
        }
        return try readsUntilNow() - before
    }

    @Test("A whole file is written and read with one look at each key", arguments: [0, 5, 5000, 300_000])
    func wholeFile(size: Int) throws {
        let path = bed.path("f")
        // Class keys A and C: C for the mark of origin.
        #expect(try reads("put \(size) \(path)") == 2)
        #expect(try reads("get \(path)") == 1)
        // Opened, and then written to.
        #expect(try reads("put \(size + 1) \(path)") == 2)
        #expect(try bed.read(path) == pattern(1, count: size + 1))
    }

    @Test(
        "A handle fetches the class key once to be opened, once for each MiB, and never to be closed",
        arguments: [5, 5000, 3 << 20])
    func handle(size: Int) throws {
        let path = try bed.make("f", .complete, pattern(1, count: size))
        let pieces = (size + (1 << 20) - 1) / (1 << 20)
        #expect(try reads("open r \(path)") == 1)
        #expect(try reads("read 0 \(size)", "read 0 \(size)") == 2 * pieces)
        #expect(try reads("close") == 0)
        #expect(try reads("open w \(path)") == 1)
        #expect(try reads("write 0 \(size) 2") == pieces)
        #expect(try reads("write 1 2 3") == 1)
        #expect(try reads("sync", "close") == 0)
    }

    @Test(
        "A handle on a file of another class fetches its class key once, and never again",
        arguments: [ProtectionClass.completeUnlessOpen, .completeUntilFirstUserAuthentication])
    func keptKeys(protectionClass: ProtectionClass) throws {
        let path = try bed.make("f", protectionClass, pattern(1, count: 5000))
        #expect(try reads("open r \(path)") == 1)
        #expect(try reads("read 0 5000", "read 0 5000", "close") == 0)
    }
}
