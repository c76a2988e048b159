import Foundation
import PowerCutDisk
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// The power fails while files are written: what was acknowledged is there, whole, and nothing needs a repair.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "power cuts take root, /dev/fuse and loop devices"), .serialized)
struct PowerCutFileTests {
    /// Commits in place: a file is what some whole number of commits makes.
    @Test(arguments: StormProfile.allCases)
    func commits(_ profile: StormProfile) throws {
        let cuts = try PowerCuts("\(profile)", mebibytes: 64)
        let path = try cuts.bed.make("f", .complete)
        let states = Self.states(profile, cuts.seed, count: 300)
        var isRepaired = false
        try cuts.work(profile.rawValue, [path.string, "5"], steps: 60) { keybag, last, comment in
            // Somebody without keys may have been there first.
            isRepaired.toggle()
            if isRepaired { try ProtectedFile.repair(fileAt: path) }
            let found = try ProtectedFile.contents(of: path, keybag: keybag)
            let index = states.firstIndex(of: checksum(found))
            let number = try #require(index, "\(comment): \(found.brief) are what no number of commits makes")
            #expect(number > last, comment)
            // It can be worked with as if nothing had happened.
            let file = try ProtectedFile.open(path, .readWrite, keybag: keybag)
            try file.write([1, 2, 3], at: 0)
            try file.close()
            #expect(try ProtectedFile.contents(of: path, keybag: keybag) == [1, 2, 3] + found.dropFirst(3), comment)
            try StoredFile(path).expectClosed(comment)
        }
    }

    /// What the file is before the first commit, behind it, behind the second one …
    private static func states(_ profile: StormProfile, _ seed: UInt64, count: Int) -> [UInt64] {
        var model = ModelFile()
        return [checksum(model.bytes)]
            + (0..<count).map { number in
                for step in profile.steps(ofCommit: number, seed: seed) { model.apply(step) }
                return checksum(model.bytes)
            }
    }

    /// Whole new files: the one in flight is not there, or whole; made by a handle it may still be empty.
    @Test func newFiles() throws {
        let cuts = try PowerCuts("new files")
        let directory = cuts.bed.directory
        try cuts.work("new", [directory.string], steps: 40) { keybag, last, comment in
            var names = Set(try DirectoryListing.names(of: directory))
            for number in 0..<(last + 1) {
                let found = try ProtectedFile.contents(of: directory.appending("\(number)"), keybag: keybag)
                try #require(found == newFileBytes(number, seed: cuts.seed), "\(comment), file \(number)")
                names.remove("\(number)")
            }
            // What comes behind it in the same moment, too.
            while let name = names.popFirst() {
                let number = try #require(Int(name), "\(comment): \(name)")
                let found = try ProtectedFile.contents(of: directory.appending(name), keybag: keybag)
                let isWhole = found == newFileBytes(number, seed: cuts.seed)
                #expect(isWhole || (number % 3 == 2 && found.isEmpty), "\(comment), file \(number): \(found.brief)")
            }
        }
    }

    /// One file, replaced as a whole: the old one or the new one, in its class.
    @Test func replacements() throws {
        let cuts = try PowerCuts("replacements")
        let path = try cuts.bed.make("f", .complete, newFileBytes(0, seed: cuts.seed))
        try cuts.work("replace", from: 1, [path.string], steps: 40) { keybag, last, comment in
            let found = try ProtectedFile.contents(of: path, keybag: keybag)
            let isKnown = (last...last + 2).contains { found == newFileBytes($0, seed: cuts.seed) }
            #expect(isKnown, "\(comment): \(found.brief)")
            #expect(try ProtectedFileInfo(of: path).protectionClass == .complete, comment)
            // The next replacement takes away what was left.
            try Data([1]).write(to: path.url, options: .atomic, protectedBy: keybag)
            #expect(try DirectoryListing.names(of: cuts.bed.directory) == ["f"], comment)
        }
    }

    /// Plaintext to protected and back, one file.
    @Test func conversions() throws {
        let cuts = try PowerCuts("protect and unprotect")
        let text = pattern(5, count: 400_000)
        let path = try cuts.bed.makePlain("f", text)
        try cuts.work("convert", [path.string], steps: 12) { keybag, last, comment in
            let isProtected = try LowerFile(path, flags: O_RDONLY).isOneOfOurs()
            let found = isProtected ? try ProtectedFile.contents(of: path, keybag: keybag) : try path.contents()
            try #require(found == text, comment)
            if isProtected { try keybag.unprotect(path) } else { try keybag.protect(path, as: .complete) }
            #expect(try DirectoryListing.names(of: cuts.bed.directory) == ["f"], comment)
        }
    }

    /// The class is an acknowledged one or that of a step behind it, the content is untouched.
    @Test(arguments: [100, 20_000])
    func classChanges(_ size: Int) throws {
        let cuts = try PowerCuts("class change, \(size) bytes")
        let route: [ProtectionClass] = [.none, .completeUnlessOpen, .complete, .completeUntilFirstUserAuthentication]
        let text = pattern(9, count: size)
        let path = try cuts.bed.make("f", route[0], text)
        try cuts.work(
            "class", from: 1, [path.string] + route.map(\.shortName), steps: 40
        ) { keybag, last, comment in
            let found = try ProtectedFileInfo(of: path).protectionClass
            #expect((last...last + 2).contains { route[$0 % 4] == found }, "\(comment): \(found)")
            #expect(try ProtectedFile.contents(of: path, keybag: keybag) == text, comment)
            try keybag.setProtection(.complete, ofItemAt: path)
            try keybag.lock()
            expectError("locked", comment) { _ = try ProtectedFile.contents(of: path, keybag: keybag) }
        }
    }

    /// A file under new keys, each time.
    @Test func rekeys() throws {
        let cuts = try PowerCuts("rekeys")
        let text = pattern(10, count: 100_000)
        let path = try cuts.bed.make("f", .complete, text)
        try cuts.work("rekey", [path.string], steps: 20) { keybag, _, comment in
            #expect(try ProtectedFile.contents(of: path, keybag: keybag) == text, comment)
            try keybag.rekey(fileAt: path)
            #expect(try DirectoryListing.names(of: cuts.bed.directory) == ["f"], comment)
        }
    }

    /// Lines of a log: each acknowledged one is there, in order, and the next one follows.
    @Test func logs() throws {
        let cuts = try PowerCuts("log")
        let path = cuts.bed.path("log")
        try cuts.work("log", [path.string], steps: 60) { keybag, last, comment in
            var numbers: [Int] = []
            if last >= 0 {
                let text = String(decoding: try ProtectedFile.contents(of: path, keybag: keybag), as: UTF8.self)
                numbers = text.split(separator: "\n").compactMap { Int($0.prefix { $0 != " " }) }
            }
            #expect(numbers == Array(0..<numbers.count), comment)
            #expect(numbers.count > last, comment)
        }
    }
}
