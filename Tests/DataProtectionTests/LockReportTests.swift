import Foundation
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import StormScript
import Synchronization
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// A lock beside other processes that have files open.
@Suite struct LockReportTests {
    private let bed: FileTestBed
    private let expected = pattern(7, count: 10_000)

    init() throws {
        bed = try FileTestBed()
        try bed.make("complete", .complete, expected)
        try bed.make("unless-open-handle", .completeUnlessOpen, expected)
        try bed.make("unsynced", .complete)
    }

    private func worker(_ questions: String...) throws -> StormProcess {
        let worker = try StormProcess(bed.keybag.directory, ["serve"])
        for question in questions {
            let answer = try worker.ask(question)
            try #require(answer.hasPrefix("ok"), "\(question): \(answer)")
        }
        return worker
    }

    @Test("Five processes: one stopped, one writing, one with what it has not synced, all with open files")
    func fiveProcesses() throws {
        let readComplete = "open r \(bed.path("complete"))"
        let holdB = "hold \(bed.path("unless-open-handle"))"
        let sample = "ok \(expected.count) \(checksum(expected))"
        let reader = try worker(readComplete, holdB)
        let onlyB = try worker(holdB, holdB)
        let stopped = try worker(readComplete, holdB)
        let unsynced = try worker("open w \(bed.path("unsynced"))", "append 300000 5", "write 0 10 6")
        let writing = try StormProcess(bed.keybag.directory, ["crowd", "write", bed.directory.string, "written"])
        #expect(try writing.line() == "ready")
        stopped.stop()

        let start = Clock.monotonic()
        let report = try bed.keybag.lock(waiting: 1)
        print("lock beside a stopped process: \((Clock.monotonic() - start) / 1_000_000) ms")
        #expect(try bed.keybag.state() == .locked)
        #expect(!report.isClean)
        #expect(report.clients.filter { !$0.hasAnswered }.map(\.pid) == [stopped.pid])
        let holders = Dictionary(uniqueKeysWithValues: report.clients.map { ($0.pid, $0.unlessOpenHandles) })
        #expect(
            holders == [
                reader.pid: 1, onlyB.pid: 2, stopped.pid: 1, unsynced.pid: 0, writing.pid: 0,
            ])
        #expect(report.clients.allSatisfy { $0.program == "storm-worker" })
        let file = bed.path("unless-open-handle")
        let files = Dictionary(uniqueKeysWithValues: report.clients.map { ($0.pid, $0.unlessOpenFiles) })
        #expect(
            files == [
                reader.pid: [file], onlyB.pid: [file, file], stopped.pid: [file], unsynced.pid: [], writing.pid: [],
            ])

        // What was written before the keys went is on the disk, though nobody has synced it.
        _ = try unsynced.kill(after: nil)
        #expect(try reader.ask("read 0 20000").hasPrefix("error locked"))
        #expect(try reader.ask("held 0 20000") == sample)
        #expect(try onlyB.ask("held 0 20000") == "\(sample) \(sample.dropFirst(3))")
        kill(stopped.pid, SIGCONT)
        #expect(try stopped.ask("read 0 20000").hasPrefix("error locked"))
        #expect(try stopped.ask("held 0 20000") == sample)
        while bed.keybag.clients().contains(where: { !$0.hasAnswered }) { usleep(1_000) }
        #expect(try bed.keybag.lock(waiting: 600).isClean)

        try bed.bag.unlock()
        try bed.makePlain("stop", [])
        let counts = try #require(try writing.line()).split(separator: " ").compactMap { Int($0) }
        #expect(try bed.read(bed.path("written")) == (0..<counts[0]).flatMap { bytes(of: $0) })
        #expect(try bed.read(bed.path("unsynced")) == pattern(6, count: 10) + pattern(5, count: 300_000).dropFirst(10))
        #expect(try stopped.ask("read 0 20000") == sample)
    }

    /// As the worker writes a number.
    private func bytes(of number: Int) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } }

    @Test("Locked and unlocked by two processes over and over, read and written in eight", .timeLimit(.minutes(20)))
    func rapidly() throws {
        let pairs = Effort.count(60, 1_000)
        let directory = bed.directory.string
        let writers = try (0..<4).map {
            try StormProcess(bed.keybag.directory, ["crowd", "write", directory, "written-\($0)"])
        }
        let readers = try (0..<4).map { _ in try StormProcess(bed.keybag.directory, ["crowd", "read", directory]) }
        for worker in writers + readers { #expect(try worker.line() == "ready") }
        let togglers = try (0..<2).map { _ in
            try StormProcess(
                bed.keybag.directory, ["crowd", "toggle", directory, "\(pairs / 2)", TestKeybag.passcode])
        }
        let ring = RingInspection(bed.keybag)
        let overtaken = try togglers.map { try #require(try $0.line()) }
        #expect(ring.end() == [], "half of the keys")
        for answer in overtaken { #expect(answer.hasPrefix("\(pairs / 2) "), "\(answer)") }

        try bed.bag.unlock()
        try bed.makePlain("stop", [])
        let read = try readers.map { try #require(try $0.line()) }
        var written: [String] = []
        for (index, writer) in writers.enumerated() {
            let line = try #require(try writer.line())
            written.append(line)
            let count = try #require(Int(line.split(separator: " ")[0]), "\(line)")
            let stored = try bed.read(bed.path("written-\(index)"))
            // One more may have been on its way.
            #expect(stored.prefix(8 * count) == ArraySlice((0..<count).flatMap { bytes(of: $0) }))
            #expect(stored.count <= 8 * (count + 1))
        }
        for line in read { #expect(line.split(separator: " ").compactMap { Int($0) }.count == 2, "\(line)") }
        print(
            "\(pairs) pairs of unlock and lock; unlocks overtaken: \(overtaken); reads that gave data, that met a lock: "
                + "\(read); acknowledged writes, writes that met a lock: \(written)")
    }

    /// Looks at the key of A and B over and over: whoever finds one finds both.
    private final class RingInspection: @unchecked Sendable {  // written by one thread, read after it has ended
        private var wrong: [String] = []
        private let isWanted = Mutex(true)
        private let isOver = DispatchSemaphore(value: 0)

        init(_ keybag: Keybag) {
            Thread.detachNewThread { [self] in
                while isWanted.withLock({ $0 }) {
                    do throws(DataProtectionError) { try look(at: keybag) } catch { wrong.append("\(error)") }
                    usleep(200)
                }
                isOver.signal()
            }
        }

        private func look(at keybag: Keybag) throws(DataProtectionError) {
            var serial: KeySerial?
            guard let payload = try RingKeys.payload(of: keybag.ring.unlocked, serial: &serial) else { return }
            inspect(payload)
        }

        private func inspect(_ payload: borrowing SecretBytes) {
            payload.withUnsafeBytes { payload in
                let has = [ProtectionClass.complete, .completeUnlessOpen].map { RingPayload.holds($0, payload) }
                if has != [true, true] { wrong.append("\(has)") }
            }
        }

        func end() -> [String] {
            isWanted.withLock { $0 = false }
            isOver.wait()
            return wrong
        }
    }
}
