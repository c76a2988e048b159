import Foundation
import GRDB
import POSIXThreads
import Testing

@testable import ProtectionDownloads

/// Changes that nobody waits for: made with the next one, or a moment later, in their order; their errors harm nobody.
@Suite struct GroupCommitSoonTests {
    private typealias Bed = GroupCommitTests.Bed
    private typealias Refused = GroupCommitTests.Refused

    /// Waits until so many numbers are there. Who waits in vain fails by the test's limit.
    private func wait(for count: Int, _ bed: Bed) async throws {
        while try bed.numbers.count < count { try await Task.sleep(for: .milliseconds(5)) }
    }

    @Test func beforeWhatComesLater() throws {
        let bed = try Bed()
        let counter = GroupCommitTests.Counter()
        bed.database.add(transactionObserver: counter, extent: .databaseLifetime)
        for number in 0..<3 { bed.commits.soon { try bed.add(number, $0) } }
        try bed.commits(isLasting: false) { try bed.add(3, $0) }
        #expect(try bed.numbers == [0, 1, 2, 3])
        #expect(counter.count == 1)
    }

    @Test(.timeLimit(.minutes(1))) func byItself() async throws {
        let bed = try Bed()
        for round in 1...3 {
            bed.commits.soon { try bed.add(round, $0) }
            try await wait(for: round, bed)
        }
        #expect(try bed.numbers == [1, 2, 3])
    }

    /// It comes while another one is committed, and nobody comes after it.
    @Test(.timeLimit(.minutes(1))) func behindTheLastOne() async throws {
        let bed = try Bed()
        try bed.commits(isLasting: true) { database in
            bed.commits.soon { try bed.add(2, $0) }
            try bed.add(1, database)
        }
        try await wait(for: 2, bed)
        #expect(try bed.numbers == [1, 2])
    }

    @Test func oneThatThrowsFailsAlone() throws {
        let bed = try Bed()
        for number in 0..<3 {
            bed.commits.soon { database in
                try bed.add(number, database)
                if number == 1 { throw Refused(number: 1) }
            }
        }
        try bed.commits(isLasting: true) { try bed.add(3, $0) }
        #expect(try bed.numbers == [0, 2, 3])
        // Nor does it suffer for whoever waits.
        bed.commits.soon { try bed.add(4, $0) }
        #expect(throws: Refused.self) { try bed.commits(isLasting: true) { _ in throw Refused(number: 5) } }
        #expect(try bed.numbers == [0, 2, 3, 4])
    }

    /// It is lost with a commit that fails, and those that come later are made.
    @Test(.timeLimit(.minutes(1)), arguments: [true, false])
    func aCommitThatFails(_ isAwaited: Bool) async throws {
        let bed = try Bed()
        let counter = GroupCommitTests.Counter()
        bed.database.add(transactionObserver: counter, extent: .databaseLifetime)
        counter.refuses = true
        bed.commits.soon { try bed.add(1, $0) }
        if isAwaited {
            #expect(throws: (any Error).self) { try bed.commits(isLasting: true) { try bed.add(2, $0) } }
        }
        while bed.commits.waitingCount > 0 { try await Task.sleep(for: .milliseconds(5)) }
        waitForTheCommit(bed)
        counter.refuses = false
        bed.commits.soon { try bed.add(3, $0) }
        try bed.commits(isLasting: true) { try bed.add(4, $0) }
        #expect(try bed.numbers == [3, 4])
        #expect(try bed.synchronous == 2)
    }

    /// The one that is under way.
    private func waitForTheCommit(_ bed: Bed) { bed.database.writeWithoutTransaction { _ in } }

    /// Many at once from many threads: none is lost, and those of each stay in their order.
    @Test(.timeLimit(.minutes(1))) func noneIsLost() async throws {
        let bed = try Bed()
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    for number in 0..<100 {
                        bed.commits.soon { try bed.add(thread * 1000 + number, $0) }
                        if number % 7 == thread { try? bed.commits(isLasting: false) { _ in } }
                    }
                }
            }
        }
        try await wait(for: 400, bed)
        let numbers = try bed.numbers
        for thread in 0..<4 {
            #expect(numbers.filter { $0 / 1000 == thread } == (0..<100).map { thread * 1000 + $0 })
        }
    }

    /// The system makes no thread for the moment: nothing waits for a later change, and nothing waits for ever.
    @Test(.timeLimit(.minutes(1))) func withoutAThread() throws {
        let bed = try Bed()
        let commits = GroupCommit(
            bed.database, startThread: { _ throws(POSIXThread.Refusal) in throw POSIXThread.Refusal(code: EAGAIN) })
        commits.soon { try bed.add(1, $0) }
        #expect(try bed.numbers == [1])
        // Within a commit, and one within that again.
        try commits(isLasting: true) { database in
            commits.soon { database in
                try bed.add(3, database)
                commits.soon { try bed.add(4, $0) }
            }
            try bed.add(2, database)
        }
        #expect(try bed.numbers == [1, 2, 3, 4])
        try commits(isLasting: false) { try bed.add(5, $0) }
        #expect(try bed.numbers == [1, 2, 3, 4, 5])
    }

    /// Its list is closed before its moment has come: it is not made, and nothing else happens.
    @Test func theEndOfItAll() async throws {
        let bed = try Bed()
        do {
            let commits = GroupCommit(bed.database)
            commits.soon { try bed.add(1, $0) }
        }
        try await Task.sleep(for: .milliseconds(200))
        #expect(try bed.numbers == [])
    }
}
