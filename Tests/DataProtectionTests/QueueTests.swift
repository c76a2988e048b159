import Dispatch
import Foundation
import ProtectionFormat
import ProtectionKeys
import StormScript
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectedTrees

/// `raiseTo`: written as one class, kept as a stronger one; and the queue of what had to wait for that.
@Suite struct QueueTests {
    private func protectionClass(_ path: FilePath) throws -> ProtectionClass {
        try ProtectedFileInfo(of: path).protectionClass
    }

    private func create(_ name: String, _ bed: FileTestBed, raiseTo: ProtectionClass = .complete) throws
        -> ProtectedFile
    {
        let file = try ProtectedFile.open(
            bed.path(name), .readWrite, create: .completeUnlessOpen, raiseTo: raiseTo, keybag: bed.keybag)
        try file.write([1, 2, 3], at: 0)
        return file
    }

    /// A file that was closed while locked, and its note.
    private func queued(_ name: String, _ bed: FileTestBed) throws -> FilePath {
        let file = try create(name, bed)
        try bed.keybag.lock()
        try file.close()
        return bed.path(name)
    }

    @Test func raisedAtCloseWhenUnlocked() throws {
        let bed = try FileTestBed()
        let file = try create("f", bed)
        #expect(try file.protectionClass() == .completeUnlessOpen)
        #expect(try bed.keybag.queuedWork() == [QueuedWork(.raise(to: .complete), bed.path("f").resolved())])
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.inUse], "a lock would shut it for its writer")
        #expect(try protectionClass(bed.path("f")) == .completeUnlessOpen)
        try file.close()
        #expect(try protectionClass(bed.path("f")) == .complete)
        #expect(bed.keybag.queuedWorkCount == 0)
        #expect(try bed.read(bed.path("f")) == [1, 2, 3])
    }

    @Test(arguments: [ProtectionState.locked, .beforeFirstUnlock]) func queuedWhileLocked(_ state: ProtectionState)
        throws
    {
        let bed = try FileTestBed(state: state)
        let file = try create("f", bed)
        try file.close()
        try Data([4]).write(
            to: bed.path("g").url, options: .completeFileProtectionUnlessOpen, protectedBy: bed.keybag,
            raiseTo: .complete)
        try bed.keybag.unlock(passcode: secret(TestKeybag.passcode))
        #expect(try protectionClass(bed.path("f")) == .completeUnlessOpen, "an unlock does not wait for it")
        #expect(bed.keybag.queuedWorkCount == 2)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done, .done])
        for name in ["f", "g"] { #expect(try protectionClass(bed.path(name)) == .complete) }
        #expect(try bed.keybag.queuedWork() == [])
        #expect(try bed.read(bed.path("f")) == [1, 2, 3])
    }

    @Test func aHandleThatIsForgottenIsRaisedToo() throws {
        let bed = try FileTestBed()
        _ = try create("f", bed)
        try create("g", bed).discard()
        for name in ["f", "g"] { #expect(try protectionClass(bed.path(name)) == .complete) }
    }

    /// Noted before it appears, so also where a process dies in between; and found under the name it is published by.
    @Test(arguments: Storm.Moment.allCases, [ProtectionState.unlocked, .locked])
    func killedProcesses(_ moment: Storm.Moment, _ state: ProtectionState) throws {
        let bed = try FileTestBed(state: state)
        // A note goes only where the file could be raised.
        let calls = ["linkat", "fsync", "pwrite64", "fdatasync"] + (state == .unlocked ? ["unlink"] : [])
        var storm = Storm("raise, \(state.rawValue)", moment, bed, calls: calls, each: 4)
        var next = 0
        for kill in 0..<storm.kills {
            next = try storm.kill("raise", from: next, [bed.directory.string]) + 1
            if state == .locked {
                #expect(try bed.keybag.performQueuedWork().allSatisfy { $0.outcome == .waiting })
                try bed.enter(.unlocked)
            }
            for result in try bed.keybag.performQueuedWork() {
                #expect([.done, .unneeded, .gone].contains(result.outcome), "kill \(kill): \(result)")
            }
            for name in try bed.names() {
                #expect(try protectionClass(bed.path(name)) == .complete, "kill \(kill), file \(name)")
            }
            for number in 0..<next {
                let bytes = try bed.read(bed.path("\(number)"))
                try #require(bytes == newFileBytes(number, seed: storm.seed), "kill \(kill), file \(number)")
            }
            #expect(bed.keybag.queuedWorkCount == 0)
            if OwnDirectory.exists(bed.path("\(next)")) { try bed.path("\(next)").remove() }
            try bed.enter(state)
        }
        storm.report()
    }

    // MARK: what happens to a file meanwhile

    @Test func renamedInItsDirectory() throws {
        let bed = try FileTestBed()
        let path = try queued("f.part", bed)
        try AtomicReplace.rename(path, to: bed.path("f"))
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try protectionClass(bed.path("f")) == .complete)
    }

    @Test func replacedAsAWhole() throws {
        let bed = try FileTestBed()
        let path = try queued("f", bed)
        try Data([9]).write(to: path.url, options: .atomic, protectedBy: bed.keybag)
        #expect(try protectionClass(path) == .completeUnlessOpen, "inherited")
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try protectionClass(path) == .complete)
    }

    @Test func goneOrOutOfSight() throws {
        let bed = try FileTestBed()
        try queued("f", bed).remove()
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.gone])
        #expect(bed.bag.warnings.unusual.map(\.caseName) == ["queuedFileGone"])
        #expect(bed.keybag.queuedWorkCount == 0)
        // Another file of that name, of another class, is not meant.
        try queued("g", bed).remove()
        try bed.enter(.unlocked)
        try bed.makeWhole("g", .completeUntilFirstUserAuthentication, [1])
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.gone])
        #expect(try protectionClass(bed.path("g")) == .completeUntilFirstUserAuthentication)
    }

    /// What somebody says by hand counts more.
    @Test(arguments: ProtectionClass.allCases) func reclassedByHand(_ byHand: ProtectionClass) throws {
        let bed = try FileTestBed()
        let file = try ProtectedFile.create(
            bed.path("f"), as: .completeUntilFirstUserAuthentication, raiseTo: .completeUnlessOpen, keybag: bed.keybag)
        try bed.keybag.setProtection(byHand, ofItemAt: bed.path("f"))
        try file.close()
        let expected = byHand == .completeUntilFirstUserAuthentication ? .completeUnlessOpen : byHand
        #expect(try protectionClass(bed.path("f")) == expected)
        #expect(bed.keybag.queuedWorkCount == 0)
    }

    @Test func aWeakerClassIsRefused() throws {
        let bed = try FileTestBed()
        expectError("wouldWeaken") {
            _ = try ProtectedFile.create(
                bed.path("f"), as: .complete, raiseTo: .completeUnlessOpen, keybag: bed.keybag)
        }
        expectError("wouldWeaken") {
            _ = try ProtectedFileWriter(
                bed.path("f"), as: .complete, raiseTo: .completeUntilFirstUserAuthentication, keybag: bed.keybag)
        }
        #expect(try bed.names() == [])
        #expect(bed.keybag.queuedWorkCount == 0)
        try ProtectedFile.create(bed.path("f"), as: .complete, raiseTo: .complete, keybag: bed.keybag).close()
        #expect(!OwnDirectory.exists(bed.keybag.directory.appending("queue")), "there is nothing to note")
    }

    @Test func whereNothingCanBeNotedNothingIsMade() throws {
        let bed = try FileTestBed()
        try bed.keybag.directory.appending("queue").overwrite([])
        expectError("system") {
            _ = try ProtectedFile.create(
                bed.path("f"), as: .completeUnlessOpen, raiseTo: .complete, keybag: bed.keybag)
        }
        #expect(try bed.names() == [])
    }

    // MARK: the queue

    @Test func goesOnAfterFailuresAndKeepsThem() throws {
        let bed = try FileTestBed()
        let paths = try ["a", "b", "c"].map { name in
            let path = try queued(name, bed)
            try bed.enter(.unlocked)
            return path
        }
        var bytes = try paths[1].contents()
        for head in [0, Head.length] { for byte in 100..<200 { bytes[head + byte] ^= 1 } }
        let file = try LowerFile(paths[1], flags: O_RDWR)  // the same inode
        try file.write(bytes, at: 0)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(outcomes[0] == .done && outcomes[2] == .done && outcomes.count == 3)
        guard case .failed(let error) = outcomes[1] else {
            Issue.record("\(outcomes[1])")
            return
        }
        #expect(error.caseName == "damaged")
        #expect(
            try bed.keybag.queuedWork() == [
                QueuedWork(.raise(to: .complete), try paths[1].resolved(), lastError: .badMessage)
            ])
        let note = bed.keybag.directory.appending("queue/2")
        let length = try note.contents().count
        try bed.keybag.performQueuedWork()
        #expect(try note.contents().count == length, "the same failure is noted once")
    }

    @Test func aLockStopsItBetweenFiles() throws {
        let bed = try FileTestBed()
        for number in 0..<4 {
            _ = try queued("\(number)", bed)
            try bed.enter(.unlocked)
        }
        let results = try bed.keybag.performQueuedWork { result in
            if result.work.path.lastComponent == "1" { try? bed.keybag.lock() }
        }
        #expect(results.map(\.outcome) == [.done, .done, .waiting, .waiting])
        #expect(bed.keybag.queuedWorkCount == 2)
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done, .done])
    }

    @Test func severalAtOnceDoEachOnce() throws {
        let bed = try FileTestBed(state: .locked)
        for number in 0..<40 { try create("\(number)", bed).close() }
        try bed.enter(.unlocked)
        let done = Mutex<[FilePath]>([])
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            do {
                let results = try bed.bag.reopened().performQueuedWork()
                done.withLock { $0 += results.filter { $0.outcome == .done }.map(\.work.path) }
            } catch {
                Issue.record(error)
            }
        }
        #expect(done.withLock { $0.count } == 40)
        #expect(done.withLock { Set($0).count } == 40)
        #expect(bed.keybag.queuedWorkCount == 0)
    }

    @Test func whatAnotherHandleWritesToWaits() throws {
        let bed = try FileTestBed()
        let path = try queued("f", bed)
        try bed.enter(.unlocked)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([7], at: 0)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.failed(.busy(path.resolved()))])
        try file.close()
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
    }
}

extension QueuedWork {
    fileprivate init(_ kind: Kind, _ path: FilePath, lastError: Errno? = nil) {
        self.init(kind: kind, path: path, lastError: lastError)
    }
}
