import Foundation
import GRDB
import Glibc
import Synchronization
import Testing

@testable import ProtectionDownloads

/// Changes that come while another one is committed are committed together; each fails for itself, or all of them with the disk.
@Suite struct GroupCommitTests {
    struct Refused: Error, Equatable { let number: Int }

    /// A list of numbers, and what came of those who wanted to add to it.
    final class Bed: @unchecked Sendable {  // what is not behind a mutex never changes
        let database: DatabaseQueue
        let commits: GroupCommit
        private let directory: URL
        private let results = Mutex<[Int: Result<Void, any Error>]>([:])
        private let ended = DispatchSemaphore(value: 0)

        init() throws {
            directory = FileManager.default.temporaryDirectory.appendingPathComponent("protectfs-\(UUID())")
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
            database = try DatabaseQueue(path: directory.appendingPathComponent("list").path)
            try database.writeWithoutTransaction { database in
                try database.execute(sql: "PRAGMA journal_mode = WAL")
                try database.execute(sql: "CREATE TABLE list (place INTEGER PRIMARY KEY, number INTEGER, bytes BLOB)")
            }
            commits = GroupCommit(database)
        }

        deinit { try? FileManager.default.removeItem(at: directory) }

        /// The numbers that are there, in the order in which they came.
        var numbers: [Int] {
            get throws { try database.read { try Int.fetchAll($0, sql: "SELECT number FROM list ORDER BY place") } }
        }

        /// How its commits are flushed: 1 not, 2 at once.
        var synchronous: Int? {
            get throws { try database.read { try Int.fetchOne($0, sql: "PRAGMA synchronous") } }
        }

        func add(_ number: Int, of size: Int = 1, _ database: Database) throws {
            try database.execute(
                sql: "INSERT INTO list (number, bytes) VALUES (?, zeroblob(?))", arguments: [number, size])
        }

        /// Lets one change hold up the others until all of them wait, in their order; then each is made, in one commit.
        ///
        /// - Returns: what came of each.
        func commitTogether(
            _ count: Int, lasting: Set<Int> = Set(0..<9), _ body: @escaping @Sendable (Int, Database) throws -> Void
        ) -> [Result<Void, any Error>] {
            let (isHeld, goesOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            start(-1, isLasting: true) { _ in
                isHeld.signal()
                goesOn.wait()
            }
            isHeld.wait()
            for number in 0..<count {
                start(number, isLasting: lasting.contains(number)) { try body(number, $0) }
                while commits.waitingCount <= number { usleep(100) }
            }
            goesOn.signal()
            for _ in 0...count { ended.wait() }
            return results.withLock { results in (0..<count).map { results[$0]! } }
        }

        private func start(_ number: Int, isLasting: Bool, _ body: @escaping @Sendable (Database) throws -> Void) {
            Thread.detachNewThread { [self] in
                let result = Result { try commits(isLasting: isLasting) { try body($0) } }
                results.withLock { $0[number] = result }
                ended.signal()
            }
        }
    }

    /// Counts commits, and refuses them if it is told to.
    final class Counter: TransactionObserver, @unchecked Sendable {  // one queue
        var count = 0
        var refuses = false
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseWillCommit() throws { if refuses { throw Refused(number: -1) } }
        func databaseDidCommit(_ database: Database) { count += 1 }
        func databaseDidRollback(_ database: Database) {}
    }

    private func isSuccess(_ result: Result<Void, any Error>) -> Bool {
        if case .success = result { true } else { false }
    }
    private func error<E: Error>(_ result: Result<Void, any Error>, as type: E.Type) -> E? {
        if case .failure(let error) = result { error as? E } else { nil }
    }

    @Test func inTheirOrderAndInOneCommit() throws {
        let bed = try Bed()
        let counter = Counter()
        bed.database.add(transactionObserver: counter, extent: .databaseLifetime)
        #expect(bed.commitTogether(8) { try bed.add($0, $1) }.allSatisfy(isSuccess))
        #expect(try bed.numbers == Array(0..<8))
        // And that of the one that held them up.
        #expect(counter.count == 2)
    }

    /// Neither what it has changed before it threw is there, nor is anything of the others missing.
    @Test func oneThatThrowsFailsAlone() throws {
        let bed = try Bed()
        let results = bed.commitTogether(5) { number, database in
            try bed.add(number, database)
            if number % 2 == 1 { throw Refused(number: number) }
        }
        #expect(try bed.numbers == [0, 2, 4])
        #expect(results.map(isSuccess) == [true, false, true, false, true])
        #expect([1, 3].map { error(results[$0], as: Refused.self)?.number } == [1, 3])
    }

    /// SQLite takes back the statement and nothing else.
    @Test func oneThatBreaksARuleFailsAlone() throws {
        let bed = try Bed()
        let results = bed.commitTogether(3) { number, database in
            try bed.add(number, database)
            if number == 1 { try database.execute(sql: "INSERT INTO list (place, number) SELECT place, 9 FROM list") }
        }
        #expect(try bed.numbers == [0, 2])
        #expect(results.map(isSuccess) == [true, false, true])
        #expect(error(results[1], as: DatabaseError.self)?.resultCode == .SQLITE_CONSTRAINT)
    }

    /// SQLite ends the whole transaction then: nobody is told that his change is there.
    @Test func nothingIsThereWhereTheDiskIsFull() throws {
        let bed = try Bed()
        try bed.commits(isLasting: true) { try bed.add(100, $0) }
        try bed.database.writeWithoutTransaction { database in
            let pages = try Int.fetchOne(database, sql: "PRAGMA page_count")!
            try database.execute(sql: "PRAGMA max_page_count = \(pages + 2)")
        }
        let results = bed.commitTogether(4) { number, database in
            try bed.add(number, of: number == 2 ? 1 << 20 : 1, database)
        }
        #expect(results.allSatisfy { error($0, as: DatabaseError.self)?.resultCode == .SQLITE_FULL })
        #expect(try bed.numbers == [100])
        // Those who come later do not suffer for it.
        #expect(bed.commitTogether(3) { try bed.add($0, $1) }.allSatisfy(isSuccess))
        #expect(try bed.numbers == [100, 0, 1, 2])
    }

    @Test(arguments: [true, false]) func nothingIsThereWhereTheCommitFails(_ isLasting: Bool) throws {
        let bed = try Bed()
        let counter = Counter()
        bed.database.add(transactionObserver: counter, extent: .databaseLifetime)
        counter.refuses = true
        // One of them has an error of its own, and its own is no worse than that of all.
        let results = bed.commitTogether(3, lasting: isLasting ? [0, 1, 2] : []) { number, database in
            try bed.add(number, database)
            if number == 1 { throw Refused(number: 1) }
        }
        #expect(!results.contains(where: isSuccess))
        #expect(try bed.numbers == [])
        counter.refuses = false
        #expect(bed.commitTogether(2) { try bed.add($0, $1) }.allSatisfy(isSuccess))
        #expect(try bed.numbers == [0, 1])
        #expect(try bed.synchronous == 2)
    }

    /// Whoever wants it flushed has it flushed, whoever else is in the group.
    @Test func oneThatIsToLastMakesAllLast() throws {
        let bed = try Bed()
        let seen = Mutex<[Int]>([])
        let look: @Sendable (Int, Database) throws -> Void = { number, database in
            let level = try Int.fetchOne(database, sql: "PRAGMA synchronous")!
            seen.withLock { $0.append(level) }
            try bed.add(number, database)
        }
        _ = bed.commitTogether(2, lasting: [1], look)
        _ = bed.commitTogether(2, lasting: [], look)
        try bed.commits(isLasting: true) { try look(9, $0) }
        #expect(seen.withLock { $0 } == [2, 2, 1, 1, 2])
        #expect(try bed.synchronous == 2)
    }
}
