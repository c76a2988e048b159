import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// The disk is full, or fails: the handle is dead, and the file is one of its commits. FORMAT.md §4 rule 15.
@Suite struct FailureTests {
    static let failures = [("pwrite64", "ENOSPC"), ("fdatasync", "EIO"), ("ftruncate", "EIO")]

    @Test(arguments: failures, [StormProfile.overwrite, .truncate])
    func everyCall(_ failure: (call: String, error: String), _ profile: StormProfile) throws {
        guard StormProcess.canKillAtCalls else { return print("skipped: there is no strace(1) here that may trace") }
        let bed = try FileTestBed()
        var generator = Effort.generator("FailureTests, \(failure), \(profile)", 3)
        let seed = generator.next() >> 16
        if failure.call == "ftruncate" && profile == .overwrite { return }  // it cuts too seldom
        for number in Effort.slice(of: 1...20) {
            // The first ftruncate(2) of a process is that of its secret memory.
            let place = failure.call == "ftruncate" ? number + 1 : number
            let call = StormProcess.Call(name: failure.call, number: place, error: failure.error)
            try fail(bed, profile, seed, call)
        }
    }

    private func fail(_ bed: FileTestBed, _ profile: StormProfile, _ seed: UInt64, _ call: StormProcess.Call) throws {
        let path = try bed.make("f \(call)", .complete)
        try bed.silenceClients()
        let worker = try StormProcess(bed.keybag.directory, ["serve"], wrapper: call.wrapper)
        #expect(try worker.ask("open w \(path)").hasPrefix("ok"))
        var committed = ModelFile()
        var model = committed
        var answer = "ok"
        var commit = 0
        while answer.hasPrefix("ok"), commit < 200 {
            for step in profile.steps(ofCommit: commit, seed: seed) + [.sync] where answer.hasPrefix("ok") {
                answer = try worker.ask("\(step)")
                model.apply(step)
            }
            if answer.hasPrefix("ok") { committed = model }
            commit += 1
        }
        try #require(answer.hasPrefix("error system") && answer.contains(call.name), "\(call): \(answer)")
        for question in ["write 0 1 1", "sync", "close"] {
            #expect(try worker.ask(question).hasPrefix("error handleFailed"), "\(call), \(question)")
        }
        // Steps of the commit that failed may be missing from the model; the file is whole either way.
        for step in profile.steps(ofCommit: commit - 1, seed: seed) { model.apply(step) }
        let found = try bed.read(path)
        #expect(found == committed.bytes || found == model.bytes, "\(call): \(found.brief)")
        let next = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try next.perform(.append(count: 10, seed: 1))
        try next.close()
        #expect(try bed.read(path) == found + pattern(1, count: 10), "\(call)")
        try StoredFile(path).expectClosed("\(call)")
        try path.remove()
    }

    /// A new file whose disk is full never gets its name, and leaves none.
    @Test(arguments: ["pwrite64", "fsync", "linkat"])
    func newFiles(_ call: String) throws {
        guard StormProcess.canKillAtCalls else { return print("skipped: there is no strace(1) here that may trace") }
        let bed = try FileTestBed()
        for number in 1...4 {
            let call = StormProcess.Call(name: call, number: number, error: "ENOSPC")
            let worker = try StormProcess(bed, "new", seed: 1, first: 0, [bed.directory.string], until: call)
            var next = 0
            #expect(throws: StormProcess.Failed.self, "\(call)") {
                while let done = try worker.acknowledgement() { next = done + 1 }
            }
            // An fsync of the directory comes after the name; a handle makes its file before it writes to it.
            let names = Set(try bed.names())
            let expected = Set((0..<next).map { "\($0)" })
            let mayBeThere = call.name == "fsync" || next % 3 == 2
            #expect(names == expected || (mayBeThere && names == expected.union(["\(next)"])), "\(call)")
            for name in names {
                let found = try bed.read(bed.path(name))
                let isWhole = found == newFileBytes(Int(name)!, seed: 1)
                #expect(isWhole || (name == "\(next)" && next % 3 == 2 && found.isEmpty), "\(call), \(name)")
                try bed.path(name).remove()
            }
        }
    }
}
