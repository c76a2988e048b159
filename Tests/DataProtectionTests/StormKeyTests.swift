import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// kill -9 while keys are wrapped anew.
@Suite struct StormKeyTests {
    @Test(arguments: Storm.Moment.allCases)
    func passcodes(_ moment: Storm.Moment) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1, 2, 3])
        try bed.keybag.changePasscode(from: secret(TestKeybag.passcode), to: secret("passcode 0"), iterations: 1000)
        var storm = Storm("passcodes", moment, bed, calls: ["pwrite64", "fsync", "rename"])
        var current = 0
        for kill in 0..<storm.kills {
            let last = max(try storm.kill("passcode", from: current, ["-"]), current)
            try bed.keybag.lock()
            // The last acknowledged one opens the keybag, or the one in flight does.
            current = [last + 1, last].first { (try? bed.bag.unlock("passcode \($0)")) != nil } ?? -1
            try #require(current >= 0, "kill \(kill): no passcode opens the keybag")
            #expect(try bed.read(path) == [1, 2, 3])
            let other = current == last ? last + 1 : last
            expectError("wrongPasscode") { try bed.bag.unlock("passcode \(other)") }
            try bed.bag.unlock("passcode \(current)")
        }
        storm.report()
    }

    /// The code was shown before it was stored: either it opens the keybag or the one before does, never neither.
    @Test(arguments: Storm.Moment.allCases)
    func recoveries(_ moment: Storm.Moment) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1, 2, 3])
        let codes = try (0..<5).map { _ in try RecoveryCode.random().shown() }
        func code(_ number: Int) throws -> RecoveryCode { try recoveryCode(codes[number % codes.count]) }
        try bed.keybag.open(passcode: secret(TestKeybag.passcode)).setRecoveryCode(code(0), iterations: 1000)
        let calls = ["pwrite64", "fdatasync", "fsync", "rename", "unlink", "symlink"]
        var storm = Storm("recoveries", moment, bed, calls: calls)
        var current = 0
        for kill in 0..<storm.kills {
            if kill % 3 == 0 { try? bed.bag.deviceKey.remove() }
            let last = max(try storm.kill("recover", from: current, codes), current)
            try bed.keybag.lock()
            current = try [last + 1, last].first { try bed.bag.opens(with: code($0)) } ?? -1
            try #require(current >= 0, "kill \(kill): no code opens the keybag")
            let other = current == last ? last + 1 : last
            #expect(try !bed.bag.opens(with: code(other)), "kill \(kill): one of them is spent, or was never stored")
            if current == 0 { continue }
            try bed.bag.unlock("passcode \(current)")
            #expect(try bed.read(path) == [1, 2, 3])
            expectError("wrongPasscode") { try bed.bag.unlock("passcode \(other)") }
            try bed.bag.unlock("passcode \(current)")
            #expect(try bed.bag.file("keybag.0").contents() == bed.bag.file("keybag.1").contents())
        }
        storm.report()
    }

    /// Before the keybag is replaced, between that and the files, between two slots of a file, while old keys are forgotten:
    /// every file opens, and a second pass does the rest.
    @Test(arguments: Storm.Moment.allCases)
    func rotations(_ moment: Storm.Moment) throws {
        try rotations(moment, calls: ["pwrite64", "fdatasync"], each: 30)
        guard moment == .everyCall else { return }
        // The keybag and the ring are replaced on a thread of their own each time, and strace(1) counts the calls of a thread.
        try rotations(moment, calls: ["add_key", "fsync"], each: 4)
        try rotations(moment, calls: ["rename"], each: 2)
    }

    private func rotations(_ moment: Storm.Moment, calls: [String], each count: Int) throws {
        let bed = try FileTestBed()
        let texts = ProtectionClass.allCases.map { pattern(UInt64($0.rawValue), count: 100 + 5000 * Int($0.rawValue)) }
        let paths = try zip(ProtectionClass.allCases, texts).map { try bed.make("\($0)", $0, $1) }
        try bed.keybag.changePasscode(from: secret(TestKeybag.passcode), to: secret("passcode 0"), iterations: 1000)
        var storm = Storm("rotations", moment, bed, calls: calls, each: count)
        var current = 0
        var halves = 0
        for kill in 0..<storm.kills {
            let last = max(try storm.kill("rotate", from: current, paths.map(\.string)), current)
            let comment: Comment = "kill \(kill), step \(last)"
            let keybag = try bed.bag.reopened()
            #expect(try keybag.state() == .unlocked, comment)
            for (path, text) in zip(paths, texts) { #expect(try bed.read(path) == text, comment) }
            try bed.keybag.lock()
            current = [last + 1, last].first { (try? bed.bag.unlock("passcode \($0)")) != nil } ?? -1
            try #require(current >= 0, "kill \(kill): no passcode opens the keybag")
            halves += try paths.filter { try StoredWraps($0).generations.count > 1 }.count
            for path in paths { try keybag.rewrap(fileAt: path) }
            try keybag.open(passcode: secret("passcode \(current)")).forgetRetiredKeys(before: .max)
            let generation = keybag.activeName(.complete).generation
            for (path, text) in zip(paths, texts) {
                #expect(try StoredWraps(path).generations == [generation], comment)
                #expect(try bed.read(path) == text, comment)
            }
            #expect(bed.bag.warnings.unusual == [], comment)
        }
        if calls.contains("fdatasync"), storm.kills > 50 { #expect(halves > 0, "some kills met a file half way") }
        print("storm, rotations: \(halves) files between two slots")
        storm.report()
    }

    /// Wholly old or wholly new, and nothing else in the directory for long.
    @Test(arguments: Storm.Moment.allCases)
    func rekeys(_ moment: Storm.Moment) throws {
        let bed = try FileTestBed()
        let text = pattern(10, count: 200_000)
        let path = try bed.make("f", .complete, text)
        var storm = Storm(
            "rekeys", moment, bed, calls: ["pwrite64", "fsync", "linkat", "renameat2", "unlinkat", "fchmod"], each: 6)
        for kill in 0..<storm.kills {
            _ = try storm.kill("rekey", from: 0, [path.string])
            #expect(try bed.read(path) == text, "kill \(kill)")
            try bed.keybag.rekey(fileAt: path)
            #expect(try bed.names() == ["f"], "kill \(kill): the next one clears up")
        }
        storm.report()
    }

    static let routes: [[ProtectionClass]] = [
        [.completeUntilFirstUserAuthentication, .complete], [.none, .completeUnlessOpen, .complete],
    ]

    /// The class is the last acknowledged one or the one in flight, the content is untouched, and after a lock nothing in a
    /// file of class A opens with a class key that is still here.
    @Test(arguments: routes, Storm.Moment.allCases)
    func classChanges(_ route: [ProtectionClass], _ moment: Storm.Moment) throws {
        for size in [100, 20_000] { try classChanges(route, moment, size) }
    }

    private func classChanges(_ route: [ProtectionClass], _ moment: Storm.Moment, _ size: Int) throws {
        let bed = try FileTestBed()
        let text = pattern(9, count: size)
        let path = try bed.make("f", route[0], text)
        var storm = Storm(
            "class change, \(route.map(\.shortName)), \(size) bytes", moment, bed,
            calls: ["pwrite64", "fdatasync", "unlink"], each: 6)
        var next = 1
        var interrupted = 0
        for kill in 0..<storm.kills {
            let last = try storm.kill("class", from: next, [path.string] + route.map(\.shortName))
            let found = try ProtectedFileInfo(of: path).protectionClass
            let expected = [route[last % route.count], route[(last + 1) % route.count]]
            try #require(expected.contains(found), "kill \(kill): \(found), not one of \(expected)")
            #expect(try bed.read(path) == text, "kill \(kill)")
            if try StoredFile(path).heads.hasStaleWrap { interrupted += 1 }
            try bed.keybag.lock()
            if found == .complete { try expectClosedToOthers(bed, path, "kill \(kill)") }
            #expect(try !StoredFile(path).heads.hasStaleWrap, "kill \(kill): lock finishes the change")
            #expect(bed.notes.isEmpty, "kill \(kill)")
            try bed.enter(.unlocked)
            #expect(try bed.read(path) == text, "kill \(kill)")
            next = route.firstIndex(of: found)! + 1
        }
        print("storm, class change: \(interrupted) kills between the two slots")
        storm.report()
    }

    /// One process writes, one changes the class to and fro: neither undoes the other.
    @Test func writerAndClassChanger() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .none)
        let route: [ProtectionClass] = [.complete, .none, .completeUnlessOpen, .completeUntilFirstUserAuthentication]
        var storm = Storm("writer beside class changer", .anyTime, bed, calls: [])
        var model = ModelFile()
        var next = 0
        var nextClass = 1
        for kill in 0..<storm.kills {
            let profile = StormProfile.overwrite
            let changer = try StormProcess(
                bed, "class", seed: 0, first: nextClass, [path.string] + route.map(\.shortName))
            _ = try changer.acknowledgement()
            let last = try storm.kill(profile.rawValue, from: next, [path.string, "5"])
            let lastClass = try changer.kill(after: nextClass)!
            while next <= last {
                for step in profile.steps(ofCommit: next, seed: storm.seed) { model.apply(step) }
                next += 1
            }
            var inFlight = model
            for step in profile.steps(ofCommit: next, seed: storm.seed) { inFlight.apply(step) }
            let found = try bed.read(path)
            if found == inFlight.bytes {
                (model, next) = (inFlight, next + 1)
            } else {
                try #require(found == model.bytes, "kill \(kill): content after \(next) commits")
            }
            let protectionClass = try ProtectedFileInfo(of: path).protectionClass
            let classes = [route[lastClass % 4], route[(lastClass + 1) % 4]]
            try #require(classes.contains(protectionClass), "kill \(kill): \(protectionClass), not of \(classes)")
            nextClass = route.firstIndex(of: protectionClass)! + 1
        }
        storm.report()
    }

    /// With C's key in hand: no slot of the file gives the file key.
    private func expectClosedToOthers(_ bed: FileTestBed, _ path: FilePath, _ comment: Comment) throws {
        let bytes = try path.contents()
        var slots = 0
        for slot in 0..<2 {
            let stored = Array(bytes.dropFirst(slot * Head.length).prefix(Head.length))
            guard stored.count == Head.length, let head = try? Head(decoding: stored) else { continue }
            slots += 1
            for protectionClass in [ProtectionClass.completeUntilFirstUserAuthentication, .none] {
                let opens = try bed.keybag.withClassKey(bed.keybag.activeName(protectionClass)) {
                    key throws(DataProtectionError) in
                    do throws(KeyError) {
                        _ = try key.unwrap(head.wrap.wrapped)
                        return true
                    } catch { return false }
                }
                #expect(opens == false, "slot \(slot) under \(protectionClass), \(comment)")
            }
        }
        #expect(slots >= 1)
    }
}
