import Foundation
import SystemPackage
import Testing

/// Foundation's pipes are inherited, and it waits for a process by the end of one: a program that keeps it keeps us waiting.
@Suite("A program that the end-to-end tests start")
struct EndToEndProcessTests {
    @Test("It has its standard streams, and nothing of ours")
    func descriptors() throws {
        let others = Pipe()
        let ours = try FileManager.default.destinationOfSymbolicLink(
            atPath: "/proc/self/fd/\(others.fileHandleForWriting.fileDescriptor)")
        let run = try EndToEndRun(["/bin/ls", "-l", "/proc/self/fd"], environment: [:], input: [1])
        #expect(run.status == 0, "\(run)")
        // The directory itself is the fourth.
        #expect(run.text.split(separator: "\n").filter { $0.contains(" -> ") }.count == 4, "\(run.text)")
        #expect(run.text.contains("protectfs-end-to-end-") && !run.text.contains(ours))
    }
}
