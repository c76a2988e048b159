import Foundation
import PowerCutDisk
import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// The power fails while files are written: what was acknowledged is there, whole, and nothing needs a repair.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"), .serialized)
struct PowerCutFileTests {
    /// Commits in place: a file is what some whole number of commits makes.
    @Test(arguments: StormProfile.allCases)
    func commits(_ profile: StormProfile) throws {
        let cuts = try PowerCuts("\(profile)", mebibytes: 64)
        let path = try cuts.bed.make("f", .complete)
        let states = Self.states(profile, cuts.seed, count: 300)
        var isRepaired = false
        try cuts.work(profile.rawValue, [path.string, "5"], steps: 60) { after in
            // Somebody without keys may have been there first.
            isRepaired.toggle()
            if isRepaired { try ProtectedFile.repair(fileAt: path) }
            let found = try ProtectedFile.contents(of: path, keybag: after.keybag)
            let isWhole = after.allowed.contains { checksum(found) == states[$0 + 1] }
            let number = states.firstIndex(of: checksum(found)).map { "\($0 - 1)" } ?? "no whole number"
            try #require(isWhole, "\(after.comment): \(found.brief) are what \(number) of commits makes")
            // It can be worked with as if nothing had happened.
            let file = try ProtectedFile.open(path, .readWrite, keybag: after.keybag)
            try file.write([1, 2, 3], at: 0)
            try file.close()
            let again = try ProtectedFile.contents(of: path, keybag: after.keybag)
            #expect(again == [1, 2, 3] + found.dropFirst(3), after.comment)
            try StoredFile(path).expectClosed(after.comment)
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
        try cuts.work("new", [directory.string], steps: 40) { after in
            var names = Set(try DirectoryListing.names(of: directory))
            for number in 0..<(after.allowed.lowerBound + 1) {
                let found = try ProtectedFile.contents(of: directory.appending("\(number)"), keybag: after.keybag)
                try #require(found == newFileBytes(number, seed: cuts.seed), "\(after.comment), file \(number)")
                names.remove("\(number)")
            }
            if after.allowed.count == 2, let name = names.popFirst() {
                let number = after.allowed.upperBound
                try #require(name == "\(number)", after.comment)
                let found = try ProtectedFile.contents(of: directory.appending(name), keybag: after.keybag)
                let isWhole = found == newFileBytes(number, seed: cuts.seed)
                #expect(isWhole || (number % 3 == 2 && found.isEmpty), "\(after.comment), file \(number)")
            }
            #expect(names.isEmpty, after.comment)
        }
    }

    /// One file, replaced as a whole: the old one or the new one, in its class.
    @Test func replacements() throws {
        let cuts = try PowerCuts("replacements")
        let path = try cuts.bed.make("f", .complete, newFileBytes(0, seed: cuts.seed))
        try cuts.work("replace", from: 1, [path.string], steps: 40) { after in
            let found = try ProtectedFile.contents(of: path, keybag: after.keybag)
            let isWhole = after.allowed.contains { found == newFileBytes($0, seed: cuts.seed) }
            #expect(isWhole, "\(after.comment): \(found.brief)")
            #expect(try ProtectedFileInfo(of: path).protectionClass == .complete, after.comment)
            // The next replacement takes away what was left.
            try Data([1]).write(to: path.url, options: .atomic, protectedBy: after.keybag)
            #expect(try DirectoryListing.names(of: cuts.bed.directory) == ["f"], after.comment)
        }
    }

    /// Plaintext to protected and back, one file.
    @Test func conversions() throws {
        let cuts = try PowerCuts("protect and unprotect")
        let text = pattern(5, count: 400_000)
        let path = try cuts.bed.makePlain("f", text)
        try cuts.work("convert", [path.string], steps: 12) { after in
            let isProtected = try LowerFile(path, flags: O_RDONLY).isOneOfOurs()
            #expect(after.allowed.contains { ($0 + 2) % 2 == (isProtected ? 0 : 1) }, after.comment)
            let found = isProtected ? try ProtectedFile.contents(of: path, keybag: after.keybag) : try path.contents()
            try #require(found == text, after.comment)
            if isProtected { try after.keybag.unprotect(path) } else { try after.keybag.protect(path, as: .complete) }
            #expect(try DirectoryListing.names(of: cuts.bed.directory) == ["f"], after.comment)
        }
    }

    /// The class is an acknowledged one or that of the step behind it, the content is untouched, and what the old class opened is gone.
    @Test(arguments: [100, 20_000])
    func classChanges(_ size: Int) throws {
        let cuts = try PowerCuts("class change, \(size) bytes")
        let route: [ProtectionClass] = [.none, .completeUnlessOpen, .complete, .completeUntilFirstUserAuthentication]
        let text = pattern(9, count: size)
        let path = try cuts.bed.make("f", route[0], text)
        try cuts.work("class", from: 1, [path.string] + route.map(\.shortName), steps: 40) { after in
            let found = try ProtectedFileInfo(of: path).protectionClass
            #expect(after.allowed.contains { route[$0 % 4] == found }, "\(after.comment): \(found)")
            // The unlock has finished a change that was interrupted, where the old wrap opens while locked.
            if found == .completeUnlessOpen { #expect(try !StoredFile(path).heads.hasStaleWrap, after.comment) }
            if after.allowed.count == 1 { #expect(try !StoredFile(path).heads.hasStaleWrap, after.comment) }
            #expect(try ProtectedFile.contents(of: path, keybag: after.keybag) == text, after.comment)
            try after.keybag.setProtection(.complete, ofItemAt: path)
            try after.keybag.lock()
            expectError("locked", after.comment) { _ = try ProtectedFile.contents(of: path, keybag: after.keybag) }
        }
    }

    /// A file under new keys, each time: under those of an acknowledged step, or newer ones.
    @Test func rekeys() throws {
        let cuts = try PowerCuts("rekeys")
        let text = pattern(10, count: 100_000)
        let path = try cuts.bed.make("f", .complete, text)
        var files: [Int: FileID] = [:]
        let observe = { (step: Int) in files[step] = try StoredFile(path).heads.head.prefix.fileID }
        try cuts.work("rekey", [path.string], steps: 20, observe: observe) { after in
            let id = try StoredFile(path).heads.head.prefix.fileID
            let isNewer =
                after.allowed.count == 2 && !files.contains { $0.key <= after.allowed.lowerBound && $0.value == id }
            #expect(files[after.allowed.lowerBound] == id || isNewer, after.comment)
            #expect(try ProtectedFile.contents(of: path, keybag: after.keybag) == text, after.comment)
            try after.keybag.rekey(fileAt: path)
            #expect(try DirectoryListing.names(of: cuts.bed.directory) == ["f"], after.comment)
        }
    }

    /// Lines of a log: each acknowledged one is there, in order.
    @Test func logs() throws {
        let cuts = try PowerCuts("log")
        let path = cuts.bed.path("log")
        try cuts.work("log", [path.string], steps: 60) { after in
            var numbers: [Int] = []
            if after.allowed.lowerBound >= 0 || (try? ProtectedFileInfo(of: path)) != nil {
                let bytes = try ProtectedFile.contents(of: path, keybag: after.keybag)
                numbers = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
                    .compactMap { Int($0.prefix { $0 != " " }) }
            }
            #expect(numbers == Array(0..<numbers.count), after.comment)
            #expect(after.allowed.contains(numbers.count - 1), after.comment)
        }
    }
}
