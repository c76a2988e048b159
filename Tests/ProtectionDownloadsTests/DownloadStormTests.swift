import FaultServer
import Foundation
import ProtectionKeys
import TestEffort
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// Everything at once, in whatever order chance gives: kills, ends, locks, unlocks, new class keys, pauses, and a server that
/// breaks off. Whatever happened, each file is there in the end, whole, and nothing else.
@Suite struct DownloadStormTests {
    private static let rounds = Effort.count(16, 50)
    private static let length = 600_000

    private enum Event: CaseIterable { case kill, end, lock, unlock, rotate, pause, resume }

    private func request(_ bed: DownloadBed, _ server: FaultServer, _ number: Int) throws -> DownloadRequest {
        let name = "f\(number)"
        let answer = Answer(length: Self.length, seed: number).with(\.bytesPerSecond, 150_000)
        try server.answer(
            "/\(name)", answer.with(\.cutAfter, 90_000).with(\.end, .reset), answer,
            answer.with(\.cutAfter, 50_000).with(\.end, .abort), answer)
        var request = try bed.request(server, "/\(name)", as: name)
        request.retry.maximumFailures = 1000
        request.whileLocked = number % 3 == 1 ? .suspend : .goOn
        if number % 3 == 2 { request.protectionClass = .completeUntilFirstUserAuthentication }
        request.checks = [.digest(.sha256, try Digest.sha256(Answer.pattern(seed: number, 0..<Self.length)))]
        return request
    }

    /// New class keys, in the list's key and in every partial that can be had, and then the old ones go.
    private func rotate(_ bed: DownloadBed) throws {
        let passcode = DownloadBed.secret(DownloadBed.passcode)
        try bed.keybag.open(passcode: passcode).rotate(passcode: passcode, iterations: 1_000)
        let files = try DownloadsDirectory.protectedFiles(of: bed.keybag) + bed.names().map(bed.path)
        for path in files { _ = try? bed.keybag.rewrap(fileAt: path) }
        let areCurrent = files.allSatisfy { (try? bed.keybag.needsRewrap(fileAt: $0)) == false }
        if areCurrent { try bed.keybag.open(passcode: passcode).forgetRetiredKeys(before: .max) }
    }

    @Test func everythingAtOnce() async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        let queue = try DownloadQueue(bed.keybag)
        var ids: [DownloadID] = []
        for number in 0..<6 { ids.append(try await queue.add(try request(bed, server, number)).id) }
        var worker = try DownloadWorker.start(bed)
        var (isLocked, story) = (false, [Event]())
        var generator = Effort.generator("storm, downloads")
        for _ in 0..<Self.rounds {
            usleep(.random(in: 10_000...400_000, using: &generator))
            let event = Event.allCases.randomElement(using: &generator)!
            story.append(event)
            switch event {
            case .kill, .end:
                Glibc.kill(worker.processIdentifier, event == .kill ? SIGKILL : SIGTERM)
                worker.waitUntilExit()
                worker = try DownloadWorker.start(bed)
            case .lock:
                try bed.keybag.lock()
                isLocked = true
            case .unlock:
                try bed.unlock()
                isLocked = false
            case .rotate: if !isLocked { try rotate(bed) }
            // Over already, or about to be.
            case .pause: try? await queue.pause(ids.randomElement(using: &generator)!)
            case .resume: try? await queue.resume(ids.randomElement(using: &generator)!)
            }
        }
        Glibc.kill(worker.processIdentifier, SIGKILL)
        worker.waitUntilExit()
        try bed.unlock()
        for id in ids where try await queue.download(id).state == .paused { try await queue.resume(id) }
        #expect(try DownloadWorker.runUntilIdle(bed) == 0, "\(story)")
        try bed.keybag.performQueuedWork()
        for (number, id) in ids.enumerated() {
            let download = try await queue.download(id)
            #expect(download.state == .finished, "\(String(describing: download.failure)) \(story)")
            #expect(try bed.contents("f\(number)") == Answer.pattern(seed: number, 0..<Self.length), "\(story)")
            let wanted: ProtectionClass = number % 3 == 2 ? .completeUntilFirstUserAuthentication : .complete
            #expect(try bed.protectionClass("f\(number)") == wanted, "\(story)")
        }
        #expect(try bed.names() == (0..<6).map { "f\($0)" }, "\(story)")
        #expect(bed.keybag.queuedWorkCount == 0, "\(story)")
        print("storm, download: beside locks and rotations, at any time: \(story.count { $0 == .kill } + 1) kills")
    }
}
