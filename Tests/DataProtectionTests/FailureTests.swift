import Glibc
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

    /// Changes that read before they have done everything; each begins with a redo area that holds a record.
    enum Change: String, CaseIterable {
        case overwrite, append, truncate, growth, sparseWrite

        /// On a file of 30,000 bytes.
        var steps: [FileStep] {
            let before: [FileStep] = [.write(offset: 3, count: 10, seed: 2), .sync]
            // Not committed when the area is emptied for what follows.
            let pending = FileStep.write(offset: 40, count: 10, seed: 3)
            switch self {
            case .overwrite: return before + [.write(offset: 100, count: 9000, seed: 4)]
            case .append: return before + [.append(count: 9000, seed: 4)]
            case .truncate: return before + [.truncate(9000)]
            case .growth: return before + [pending, .write(offset: 29_000, count: 3_000_000, seed: 4)]
            case .sparseWrite: return before + [pending, .write(offset: 9_000_001, count: 9000, seed: 4)]
            }
        }
    }

    /// One read of the file fails, at any place: a change is committed whole or not at all, whether or not anything is written after it.
    @Test(arguments: Change.allCases, [false, true])
    func everyRead(_ change: Change, writesOn: Bool) throws {
        guard StormProcess.canKillAtCalls else { return print("skipped: there is no strace(1) here that may trace") }
        let bed = try FileTestBed()
        var number = 0
        var hasFailed = true
        while hasFailed {
            number += 1
            try #require(number < 100, "\(change): the reads do not end")
            guard Effort.includes(number) else { continue }
            hasFailed = try failRead(bed, change, number, writesOn: writesOn)
        }
    }

    /// - Returns: whether there was such a read.
    private func failRead(_ bed: FileTestBed, _ change: Change, _ number: Int, writesOn: Bool) throws -> Bool {
        let name = "\(change), read \(number), writesOn \(writesOn)"
        let path = try bed.make(name, .complete, pattern(1, count: 30_000))
        let call = StormProcess.Call(name: "pread64", number: number, error: "EIO", path: path)
        let worker = try StormProcess(bed.keybag.directory, ["serve"], wrapper: call.wrapper)
        var committed = ModelFile(pattern(1, count: 30_000))
        var acknowledged = committed
        var whole = committed
        var answer = try worker.ask("open w \(path)")
        let isOpen = answer.hasPrefix("ok")
        for step in change.steps + [.sync] where answer.hasPrefix("ok") {
            whole.apply(step)
            answer = try worker.ask("\(step)")
            if answer.hasPrefix("ok") { acknowledged = whole }
            if answer.hasPrefix("ok"), step == .sync { committed = acknowledged }
        }
        let hasFailed = !answer.hasPrefix("ok")
        if hasFailed { #expect(answer.hasPrefix("error system") && answer.contains("pread"), "\(name): \(answer)") }

        var expected = [committed.bytes, acknowledged.bytes, whole.bytes]
        if isOpen, hasFailed {
            let next = FileStep.write(offset: 17, count: 5, seed: 5)
            var further = acknowledged
            if writesOn { further.apply(next) }
            let answers = try (writesOn ? ["\(next)", "sync"] : ["sync"]).map { try worker.ask($0) }
            if answers.allSatisfy({ $0.hasPrefix("ok") }) {
                expected = [further.bytes]
            } else {
                let isDead = answers.allSatisfy { $0.hasPrefix("error handleFailed") && $0.contains("Input/output") }
                #expect(isDead, "\(name): \(answers)")
            }
        }
        // A read that fails now keeps the file from being tidied up; everything is committed.
        let isClosed = isOpen ? try worker.ask("close").hasPrefix("ok") : false
        let found = try bed.read(path)
        #expect(expected.contains(found), "\(name): \(answer): \(found.brief)")
        let last = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try last.perform(.append(count: 10, seed: 1))
        try last.close()
        #expect(try bed.read(path) == found + pattern(1, count: 10), "\(name)")
        try StoredFile(path).expectClosed("\(name)")
        try path.remove()
        return hasFailed || !isClosed
    }

    /// A handle whose flush has failed before its first write does not become the writer afterwards: the next flush may say that all is well.
    @Test func failedHandleBeginsNoWriting() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .none, pattern(1, count: 100))
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        // fdatasync(2) fails with EINVAL on what is no file of a disk.
        let kept = try LowerFile(path, flags: O_RDWR)
        let null = try LowerFile("/dev/null", flags: O_RDWR)
        #expect(dup2(null.descriptor, file.lower.descriptor) == file.lower.descriptor)
        expectError("system") { try file.sync() }
        #expect(dup2(kept.descriptor, file.lower.descriptor) == file.lower.descriptor)
        expectError("handleFailed") { try file.beginWriting() }
        expectError("handleFailed") { try file.write([1], at: 0) }
        expectError("handleFailed") { try file.sync() }
        #expect(try file.bytes(at: 0, count: 200) == pattern(1, count: 100), "it still reads")
        expectError("handleFailed") { try file.close() }
        #expect(try bed.read(path) == pattern(1, count: 100))
    }

    /// A new file of which something was appended by half is never finished.
    @Test func appendedByHalf() throws {
        guard StormProcess.canKillAtCalls else { return print("skipped: there is no strace(1) here that may trace") }
        let bed = try FileTestBed()
        try bed.silenceClients()
        let path = bed.path("f")
        var number = 0
        var hasFailed = true
        while hasFailed {
            number += 1
            try #require(number < 100, "the writes do not end")
            let call = StormProcess.Call(name: "pwrite64", number: number, error: "ENOSPC")
            let worker = try StormProcess(bed.keybag.directory, ["serve"], wrapper: call.wrapper)
            var answers = [try worker.ask("new \(path)")]
            // Chunks of 64 KiB: parts of several, put together.
            for seed in 1...3 where answers.last?.hasPrefix("ok") == true {
                answers.append(try worker.ask("add 100000 \(seed)"))
            }
            hasFailed = answers.last?.hasPrefix("ok") == false
            let finish = try worker.ask("finish")
            if hasFailed {
                #expect(finish.hasPrefix("error"), "\(call): \(answers), \(finish)")
                #expect(try bed.names().isEmpty, "\(call): \(answers), \(finish)")
            } else if finish.hasPrefix("ok") {
                #expect(try bed.read(path) == (1...3).flatMap { pattern($0, count: 100_000) })
            } else {
                hasFailed = true  // one of the writes of its end
            }
        }
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
