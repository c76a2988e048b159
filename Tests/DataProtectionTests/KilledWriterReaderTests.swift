import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// kill -9 at any moment: the independent reader reads what a writer left, redo records included, at a place nobody chose.
@Suite struct KilledWriterReaderTests {
    @Test(.enabled(if: IndependentReaderTests.hasPython), arguments: ProtectionClass.allCases)
    func readsWhatTheyLeft(protectionClass: ProtectionClass) throws {
        let bed = try FileTestBed()
        var (kills, paths) = (0, [FilePath]())
        for (index, profile) in StormProfile.allCases.enumerated() {
            // Each way to write meets both chunk sizes, in turns of the classes.
            let isLarge = (index + Int(protectionClass.rawValue)).isMultiple(of: 2)
            let name = "\(profile.rawValue) \(isLarge ? 64 : 4)"
            let path = try isLarge ? bed.makeWhole(name, protectionClass, []) : bed.make(name, protectionClass)
            kills += try kill(profile, path, "reader, \(protectionClass.shortName), \(name)", bed)
            paths.append(path)
        }
        let pending = try IndependentReaderTests.list(paths, bed.bag).map { Int($0[3])! }.reduce(0, +)
        print("KilledWriterReaderTests, \(protectionClass): \(kills) kills, \(pending) redo records left at the end")
        try bed.keybag.evictEverything()
    }

    /// The file is what all acknowledged commits make of it, or one more, after each kill.
    private func kill(_ profile: StormProfile, _ path: FilePath, _ name: String, _ bed: FileTestBed) throws -> Int {
        var storm = Storm(name, .anyTime, bed, calls: [])
        var (model, next) = (ModelFile(), 0)
        for kill in 0..<storm.kills {
            let last = try storm.kill(profile.rawValue, from: next, [path.string])
            while next <= last {
                for step in profile.steps(ofCommit: next, seed: storm.seed) { model.apply(step) }
                next += 1
            }
            var inFlight = model
            for step in profile.steps(ofCommit: next, seed: storm.seed) { inFlight.apply(step) }
            let answer = try IndependentReaderTests.read([path], bed.bag)
            #expect(answer.error == "" && answer.status == 0)
            if answer.output == inFlight.bytes {
                (model, next) = (inFlight, next + 1)
            } else {
                try #require(
                    answer.output == model.bytes,
                    "\(name), kill \(kill): neither the \(next) acknowledged commits nor one more")
            }
            #expect(try bed.read(path) == answer.output)
        }
        return storm.killed
    }
}
