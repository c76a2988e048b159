import Foundation
import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// kill -9 and a disk that fails in the middle of an upgrade: no file is lost, none is half-made, and the next one goes on.
@Suite struct UpgradeStormTests {
    /// 300 files in six directories: empty ones, small ones, some of several chunks.
    private struct Tree {
        let tree: UpgradeTree
        let contents: [String: [UInt8]]
        var bed: FileTestBed { tree.bed }

        init() throws {
            tree = try UpgradeTree()
            var contents: [String: [UInt8]] = [:]
            for number in 0..<300 {
                let size = [0, 1, 700, 3584, 5000, 9000, 70_000][number % 7]
                contents["d\(number % 6)/\(number)"] = pattern(number, count: size)
            }
            self.contents = contents
            try makePlain()
        }

        func makePlain() throws { for (name, bytes) in contents { try tree.plain([name], bytes) } }

        /// Every file is there with its contents, plain or protected. How many are protected.
        func expectWhole(_ comment: Comment) throws -> Int {
            var count = 0
            for (name, bytes) in contents {
                let path = bed.path(name)
                let isProtected = try LowerFile(path, flags: O_RDONLY).isOneOfOurs()
                let found = isProtected ? try bed.read(path) : try path.contents()
                try #require(found == bytes, "\(name), \(comment)")
                if isProtected { count += 1 }
            }
            return count
        }
    }

    @Test func killedAtAnyTime() async throws {
        let tree = try Tree()
        var storm = Storm("upgrade", .anyTime, tree.bed, calls: [])
        var strays = 0
        var finished = 0
        for kill in 0..<Effort.count(20, 200) {
            _ = try storm.kill("upgrade", from: 0, [tree.bed.directory.string])
            strays += try tree.tree.strays().count
            guard kill % 10 == 9 else { continue }
            if try tree.expectWhole("kill \(kill)") == 300 {
                finished += 1
                try tree.makePlain()
            }
        }
        let last = try await tree.tree.upgraded(to: .complete)
        #expect(last.failures == [])
        #expect(last.converted + last.unchanged == 300)
        #expect(try tree.expectWhole("at the end") == 300)
        #expect(try tree.tree.strays() == [])
        print("storm, upgrade: \(strays) names seen between, \(finished) trees done")
        storm.report()
    }

    /// On the way into each call by which a file changes names, and those before and after it.
    @Test(.enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"))
    func killedAtEveryCall() async throws {
        let tree = try Tree()
        let calls = ["pwrite64", "fsync", "linkat", "renameat2", "unlinkat"]
        var storm = Storm("upgrade", .everyCall, tree.bed, calls: calls, each: 3)
        for kill in 0..<storm.kills {
            _ = try storm.kill("upgrade", from: 0, [tree.bed.directory.string])
            _ = try tree.expectWhole("kill \(kill)")
        }
        #expect(try await tree.tree.upgraded(to: .complete).failures == [])
        #expect(try tree.expectWhole("at the end") == 300)
        #expect(try tree.tree.strays() == [])
        storm.report()
    }

    /// A full disk, a quota, a disk that fails, at each call in turn: that file stays as it is and is named, the others are done.
    @Test(
        .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"),
        arguments: [
            ("pwrite64", "ENOSPC", ENOSPC), ("pwrite64", "EDQUOT", EDQUOT), ("pwrite64", "EIO", EIO),
            ("fsync", "EIO", EIO), ("linkat", "EROFS", EROFS), ("renameat2", "EPERM", EPERM),
        ])
    func aCallFails(_ name: String, _ error: String, _ errno: Int32) throws {
        for number in [1, 3] {
            let tree = try UpgradeTree()
            let text = [UInt8](repeating: 7, count: 20_000)
            try tree.plain((0..<6).map { "\($0)" }, text)
            let call = StormProcess.Call(name: name, number: number, error: error)
            let worker = try StormProcess(
                tree.bed, "upgrade-once", seed: 0, first: 0, [tree.bed.directory.string], until: call)
            let summary = try worker.line()
            #expect(summary == "5 0 1 \(errno)", "\(call)")
            #expect(try tree.strays() == [])
            var plain = 0
            for name in try tree.bed.names() {
                let path = tree.bed.path(name)
                let isProtected = try LowerFile(path, flags: O_RDONLY).isOneOfOurs()
                #expect(try (isProtected ? tree.bed.read(path) : path.contents()) == text)
                if !isProtected { plain += 1 }
            }
            #expect(plain == 1 || name == "fsync", "\(call)")
        }
    }
}

private func pattern(_ number: Int, count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: $0 / 3 + number * 31) }
}
