import Foundation
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// A process that used the library, after a lock: nothing in its memory opens a class A file, or leads to what does.
@Suite struct MemoryScanTests {
    private static let program = IndependentReaderTests.folder.removingLastComponent()
        .appending("MemoryScan/scan.py")

    /// What Tests/MemoryScan/scan.py prints.
    private struct Report: Decodable {
        struct Core: Decodable {
            let skipped: String?
            let planted: [String: [String]]?
            let found: [String: [String]]?
        }
        let skipped: String?
        let secrets: Int?
        let bytes: Int?
        let aborted: Bool?
        let unreadable: [String]?
        let planted: [String: [String]]?
        let found: [String: [String]]?
        let core: Core?
    }

    /// Memory that is locked but can be read may hold class key D, which opens in every state.
    private func unexpected(_ found: [String: [String]]?, _ report: Report) -> [String: [String]]? {
        if report.unreadable?.contains(where: { $0.hasPrefix("/secretmem") }) == true { return found }
        return found?.filter { !$0.key.contains(" key D") }
    }

    @Test(
        .enabled(
            if: IndependentReaderTests.hasPython && !Effort.isSanitized,
            "python3 with the package cryptography is not here, or a sanitizer keeps memory of its own"))
    func nothingIsLeftInMemory() throws {
        // Of many characters: programs contain eight digits in a row, under the pads of HMAC too, that nobody put there.
        let passcode = String((0..<40).map { _ in Character(UnicodeScalar(UInt8.random(in: 0x21...0x7E))) })
        let bag = try TestKeybag(passcode: passcode)
        let files = bag.scratchPath.appending("files")
        let answer = try IndependentReaderTests.python(
            [
                Self.program.string, "--worker", StormProcess.executable, "--keybag", bag.directory.string,
                "--device-key", bag.deviceKey.string, "--files", files.string,
            ], input: "\(passcode)\n\(RecoveryCode.random().shown())\n")
        try #require(answer.status == 0, "\(answer.error)")
        let report = try JSONDecoder().decode(Report.self, from: Data(answer.output))
        if let reason = report.skipped { return print("MemoryScanTests skipped: \(reason)") }

        #expect(report.planted?["planted"] != nil, "the search finds what is there")
        let keys = report.planted?.keys.filter { $0.hasPrefix("planted: chunk key of an open B handle") }
        #expect(keys?.isEmpty == false, "it finds a real key: that of an open B handle may be there")
        #expect(try #require(report.bytes) > 10_000_000)
        let unread = report.unreadable?.filter { !$0.hasPrefix("/secretmem") && !$0.hasPrefix("[vvar") }
        #expect(unread == [], "all ordinary memory was searched")
        // Passcode and recovery code, what they become, class keys with what is derived from them, keys of class A files and
        // of closed class B files.
        #expect(try #require(report.secrets) == 110)
        #expect(unexpected(report.found, report) == [:], "name of a key: where it was found")
        #expect(report.aborted == true)

        let core = try #require(report.core)
        if let reason = core.skipped { return print("MemoryScanTests, core dump, skipped: \(reason)") }
        #expect(core.planted?["planted"] != nil)
        #expect(unexpected(core.found, report) == [:])
    }
}
