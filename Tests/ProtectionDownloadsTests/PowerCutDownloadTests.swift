import FaultServer
import Foundation
import PowerCutDisk
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// The power fails while files are downloaded: what was said to be finished is whole, and the rest is fetched.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"))
struct PowerCutDownloadTests {
    private let lengths = [0, 700, 30_000, 3_000_000, 1_500_000, 100, 8192, 2_000_000]

    @Test func downloads() throws {
        let disk = try PowerCutDisk(mebibytes: 96)
        let bed = try DownloadBed(in: FilePath(disk.mountPoint))
        // The record of who has files open stays open as long as this process lives: nothing could be unmounted.
        let run = bed.keybag.directory.appending("run").string
        try? FileManager.default.removeItem(atPath: run)
        try Data().write(to: URL(fileURLWithPath: run))
        let server = try FaultServer()
        for (number, length) in lengths.enumerated() { try server.answer("/\(number)", Answer(length: length)) }
        try disk.flush()
        var marks = [(step: -1, position: try disk.position())]
        for number in lengths.indices {
            let worker = try DownloadWorker.start(
                bed, "get", server.url("/\(number)").absoluteString, "\(server.directory)/authority.pem",
                bed.path("\(number)").string)
            worker.waitUntilExit()
            try #require(worker.terminationStatus == 0)
            marks.append((number, try disk.position()))
        }
        try bed.forgetEverything()
        try disk.unplug()
        try disk.afterCuts(of: "downloads", marks: marks) { allowed, text in
            let comment = Comment(rawValue: text)
            try bed.unlock()
            for number in lengths.indices where number <= allowed.lowerBound { try expectWhole(bed, number, comment) }
            #expect(try DownloadWorker.runUntilIdle(bed) == 0, comment)
            for name in try bed.names() { try expectWhole(bed, try #require(Int(name), comment), comment) }
            try bed.forgetEverything()
        }
    }

    private func expectWhole(_ bed: DownloadBed, _ number: Int, _ comment: Comment) throws {
        let found = try bed.contents("\(number)")
        try #require(found == Answer.pattern(0..<lengths[number]), "\(comment), file \(number)")
        #expect(try bed.protectionClass("\(number)") == .complete, comment)
    }
}
