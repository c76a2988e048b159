import SystemPackage
import Testing

@testable import DataProtection

/// The order in which a writer's calls come, where a power cut between two of them is too rare to be met by chance.
@Suite struct CommitOrderTests {
    /// A call that strace(1) saw: pwrite64(2) with where and how much, or a flush.
    private enum Call: Equatable {
        case write(offset: Int, count: Int)
        case flush
    }

    /// What a worker calls while it does these steps.
    private func calls(_ bed: FileTestBed, _ steps: [String]) throws -> [Call] {
        let log = bed.path("trace")
        let worker = try StormProcess(
            bed.keybag.directory, ["serve"],
            wrapper: ["strace", "-qq", "-f", "-o", log.string, "-e", "trace=pwrite64,fdatasync,fsync"])
        for step in steps { #expect(try worker.ask(step).hasPrefix("ok"), "\(step)") }
        return String(decoding: try log.contents(), as: UTF8.self).split(separator: "\n").compactMap { line in
            if line.contains(" fdatasync(") || line.contains(" fsync(") { return .flush }
            guard let match = line.firstMatch(of: #/, (\d+), (\d+)\) += \d+$/#), line.contains(" pwrite64("),
                let count = Int(match.output.1), let offset = Int(match.output.2)
            else { return nil }
            return .write(offset: offset, count: count)
        }
    }

    @Test("The head that forgets a commit's records is written when its chunks are on the disk, in their places")
    func homesBeforeTheHead() throws {
        guard StormProcess.canKillAtCalls else {
            return print("CommitOrderTests.homesBeforeTheHead skipped: there is no strace(1) here that may trace")
        }
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [UInt8](repeating: 1, count: 40_960))
        try bed.silenceClients()
        let calls = try calls(bed, ["open w \(path)", "write 5000 10 1", "sync", "close"])
        let home = 8192 + 4124
        var (isHome, isFlushed, heads) = (false, true, 0)
        for call in calls {
            switch call {
            case .write(home, 4124): (isHome, isFlushed) = (true, false)
            case .write(0, 4096), .write(4096, 4096):
                if isHome { heads += 1 }
                #expect(isFlushed, "\(calls)")
            case .flush: isFlushed = true
            default: break
            }
        }
        #expect(isHome && heads > 0, "\(calls)")
    }

    @Test("A small file that cannot be published leaves no name of its own")
    func unpublished() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        expectError("exists") {
            try AtomicReplace.write([1], to: bed.path("f"), through: bed.path("temporary")) {
                _, path throws(DataProtectionError) in
                #expect((try? bed.names()) == ["temporary"])
                throw .exists(path)
            }
        }
        #expect(try bed.names() == [])
    }
}
