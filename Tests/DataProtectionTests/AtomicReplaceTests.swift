import SystemPackage
import Testing

@testable import DataProtection

/// Small files that are wholly old or wholly new.
@Suite struct AtomicReplaceTests {
    @Test func aWriteThatFailsLeavesWhatWasThereAndNothingElse() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let path = try bed.makePlain("file", [1])
        expectError("busy") {
            try AtomicReplace.write([2], to: path, through: bed.path("file.new")) {
                _, path throws(DataProtectionError) in throw .busy(path)
            }
        }
        #expect(try bed.names() == ["file"])
        #expect(try path.contents() == [1])
    }
}
