import Foundation
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// kill -9 while files are written: nothing acknowledged is lost, nothing half-made is seen, nothing needs a repair.
@Suite struct StormFileTests {
    /// Commits in place. One commit is one number; the file is what that many make, whole.
    @Test(arguments: StormProfile.allCases, Storm.Moment.allCases)
    func commits(_ profile: StormProfile, _ moment: Storm.Moment) throws {
        for isLarge in [false, true] { try commits(profile, moment, isLarge) }
    }

    private func commits(_ profile: StormProfile, _ moment: Storm.Moment, _ isLarge: Bool) throws {
        let bed = try FileTestBed()
        let protectionClass: ProtectionClass = isLarge ? .completeUntilFirstUserAuthentication : .complete
        let path = isLarge ? try bed.makeWhole("f", protectionClass, []) : try bed.make("f", protectionClass)
        let calls = ["pwrite64", "fdatasync"] + (profile == .truncate || profile == .emptying ? ["ftruncate"] : [])
        var storm = Storm("\(profile), \(isLarge ? "64" : "4") KiB chunks", moment, bed, calls: calls)
        var model = ModelFile()
        var next = 0
        for kill in 0..<storm.kills {
            // Some handles live long, some are closed every few commits.
            let rest = [path.string] + (kill % 3 == 2 ? ["4"] : [])
            let last = try storm.kill(profile.rawValue, from: next, rest)
            while next <= last {
                for step in profile.steps(ofCommit: next, seed: storm.seed) { model.apply(step) }
                next += 1
            }
            var inFlight = model
            for step in profile.steps(ofCommit: next, seed: storm.seed) { inFlight.apply(step) }
            let info = try ProtectedFileInfo(of: path)
            let found = try bed.read(path)
            #expect(info.size == Int64(found.count))
            if found == inFlight.bytes {
                (model, next) = (inFlight, next + 1)
            } else {
                try #require(
                    found == model.bytes,
                    "kill \(kill): \(found.brief) are neither the \(next) acknowledged commits nor one more")
            }
            #expect(try bed.names() == ["f"])
        }
        storm.report()
        // Whoever writes next leaves it as if nothing had happened.
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.perform(.append(count: 10, seed: 1))
        try file.close()
        model.apply(.append(count: 10, seed: 1))
        #expect(try bed.read(path) == model.bytes)
        try StoredFile(path).expectClosed()
    }

    @Test(arguments: Storm.Moment.allCases)
    func newFiles(_ moment: Storm.Moment) throws {
        let bed = try FileTestBed()
        var storm = Storm("new files", moment, bed, calls: ["pwrite64", "fsync", "linkat", "fdatasync"])
        var next = 0
        for kill in 0..<storm.kills {
            next = try storm.kill("new", from: next, [bed.directory.string]) + 1
            var names = Set(try bed.names())
            for number in 0..<next {
                let bytes = try bed.read(bed.path("\(number)"))
                try #require(bytes == newFileBytes(number, seed: storm.seed), "kill \(kill), file \(number)")
                names.remove("\(number)")
            }
            // The one in flight: not there, or whole; made by a handle it may still be empty.
            if names.remove("\(next)") != nil {
                let bytes = try bed.read(bed.path("\(next)"))
                let isWhole = bytes == newFileBytes(next, seed: storm.seed)
                #expect(isWhole || (next % 3 == 2 && bytes.isEmpty), "kill \(kill), file \(next): \(bytes.brief)")
                try bed.path("\(next)").remove()
            }
            #expect(names.isEmpty, "kill \(kill)")
        }
        storm.report()
    }

    @Test(arguments: Storm.Moment.allCases)
    func replacements(_ moment: Storm.Moment) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, newFileBytes(0, seed: 0))
        var storm = Storm("replacements", moment, bed, calls: ["pwrite64", "fsync", "linkat", "renameat"])
        var next = 1
        var stray = 0
        for kill in 0..<storm.kills {
            let last = try storm.kill("replace", from: next, [path.string])
            let found = try bed.read(path)
            if found == newFileBytes(last + 1, seed: storm.seed) {
                next = last + 2
            } else {
                #expect(last == 0 || found == newFileBytes(last, seed: storm.seed), "kill \(kill): \(found.brief)")
                next = last + 1
            }
            #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
            let left = try bed.names().filter { $0 != "f" }
            #expect(left.allSatisfy { $0 == ".f.protectfs-unfinished-0" }, "kill \(kill): \(left)")
            stray += left.count
            // The next replacement takes away what was left.
            let bytes = newFileBytes(next, seed: storm.seed)
            try Data(bytes).write(to: path.url, options: .atomic, protectedBy: bed.keybag)
            next += 1
            #expect(try bed.names() == ["f"], "kill \(kill)")
        }
        print("storm, replacements: \(stray) names left behind, all taken away")
        storm.report()
    }

    /// Plaintext to protected and back, one file.
    @Test(arguments: Storm.Moment.allCases)
    func conversions(_ moment: Storm.Moment) throws {
        let bed = try FileTestBed()
        let text = pattern(5, count: 400_000)
        let path = try bed.makePlain("f", text)
        try path.setMode(0o640)
        let calls = ["pwrite64", "fsync", "linkat", "renameat2", "unlinkat"]
        var storm = Storm("protect and unprotect", moment, bed, calls: calls)
        var next = 0
        for kill in 0..<storm.kills {
            let last = try storm.kill("convert", from: next, [path.string])
            let isProtected = try LowerFile(path, flags: O_RDONLY).isOneOfOurs()
            let found = isProtected ? try bed.read(path) : try path.contents()
            try #require(found == text, "kill \(kill)")
            #expect(try path.mode() == 0o640)
            // What was acknowledged, or what comes after it.
            next = last % 2 == (isProtected ? 0 : 1) || last == -1 && !isProtected ? last + 1 : last + 2
            let left = try bed.names().filter { $0 != "f" }
            #expect(left.count <= 1 && left.allSatisfy { $0.hasPrefix(".f.protectfs-unfinished-") }, "\(kill): \(left)")
        }
        if try LowerFile(path, flags: O_RDONLY).isOneOfOurs() {
            try bed.keybag.unprotect(path)
        } else {
            try bed.keybag.protect(path, as: .complete)
        }
        #expect(try bed.names() == ["f"])
        storm.report()
    }
}
