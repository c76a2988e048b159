import Foundation
import Testing

@testable import Conformance

/// Foundation's pipes are inherited, and it waits for a process by the end of one: a program that keeps it keeps us waiting.
@Suite("Descriptors that programs started by the tests keep open")
struct StartedProcessTests {
    private let others = Pipe()

    private var name: String {
        get throws {
            try FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/fd/\(others.fileHandleForWriting.fileDescriptor)")
        }
    }

    @Test("storm-worker: nothing of ours")
    func stormWorker() throws {
        let bed = try FileTestBed()
        let worker = try StormProcess(bed.keybag.directory, ["serve"])
        let directory = "/proc/\(worker.pid)/fd"
        let open = try FileManager.default.contentsOfDirectory(atPath: directory).compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\($0)")
        }
        #expect(!open.isEmpty)
        #expect(try !open.contains(name))
    }

    @Test("A program of the conformance suite: nothing of ours")
    func conformance() throws {
        let process = try CommandProcess(["/bin/ls", "-l", "/proc/self/fd"].map { Array($0.utf8) }, environment: [])
        let list = String(decoding: try process.finish(), as: UTF8.self)
        #expect(list.contains("socket:"))
        #expect(try !list.contains(name))
    }
}
