import Glibc
import PowerCutDisk
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// The power fails while a tree is upgraded: each file is there, plain or protected, and the next upgrade does the rest.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"), .serialized)
struct PowerCutUpgradeTests {
    @Test func upgrade() throws {
        let cuts = try PowerCuts("upgrade")
        let sizes = [0, 1, 700, 3584, 5000, 9000, 70_000]
        let contents = (0..<60).map { pattern(UInt64($0), count: sizes[$0 % sizes.count]) }
        let paths = try contents.indices.map { try cuts.bed.makePlain("\($0)", contents[$0]) }
        try cuts.work("upgrade", [cuts.bed.directory.string], steps: contents.count) { after in
            var converted = 0
            for (path, text) in zip(paths, contents) {
                let isProtected = try LowerFile(path, flags: O_RDONLY).isOneOfOurs()
                let found =
                    isProtected ? try ProtectedFile.contents(of: path, keybag: after.keybag) : try path.contents()
                try #require(found == text, "\(after.comment): \(path)")
                converted += isProtected ? 1 : 0
            }
            #expect(converted > after.allowed.lowerBound, after.comment)
            var options = UpgradeOptions()
            options.jobs = 1
            let summary = try UpgradePass(after.keybag, cuts.bed.directory, to: .complete, rules: nil, options: options)
                .run { _ in }
            #expect(summary.failures == [] && summary.converted + summary.unchanged == paths.count, after.comment)
            #expect(Set(try DirectoryListing.names(of: cuts.bed.directory)).count == paths.count, after.comment)
        }
    }
}
