import Foundation
import PowerCutDisk
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// The power fails while files are written: what was acknowledged is there, and every file is what some whole commits have made.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "a power cut takes root, /dev/fuse and loop devices"))
struct PowerCutFileTests {
    /// Cuts of each workload; `PROTECTFS_POWER_CUTS` are spread over all.
    private static let cuts = max(4, Randomised.count("PROTECTFS_POWER_CUTS", short: 80) / StormProfile.allCases.count)

    @Test(arguments: StormProfile.allCases)
    func commits(_ profile: StormProfile) throws {
        var generator = Randomised.generator("power cuts, \(profile)")
        let disk = try PowerCutDisk(mebibytes: 64)
        let bed = try FileTestBed(in: FilePath(disk.mountPoint))
        let path = try bed.make("f", .complete)
        let seed = generator.next() >> 16
        // From here on the file is there: its name was flushed.
        var marks = [(acknowledged: -1, position: try disk.position())]
        let worker = try StormProcess(bed, profile.rawValue, seed: seed, first: 0, [path.string, "5"])
        while marks.count < 60, let number = try worker.acknowledgement() {
            marks.append((number, try disk.position()))
        }
        let last = try #require(try worker.kill(after: marks.last!.acknowledged))
        try disk.unplug()
        let states = Self.states(profile, seed, count: last + 3)
        let (below, keybag) = (Array(path.components.suffix(3)), Array(bed.keybag.directory.components.suffix(2)))
        var cuts = 0
        for cut in try disk.cuts(count: Self.cuts, from: marks[0].position, using: &generator) {
            let acknowledged = marks.last { $0.position <= cut.position }!.acknowledged
            try disk.after(cut) { place in
                let place = FilePath(place)
                let keybag = try Keybag(at: keybag.reduce(place) { $0.appending($1) })
                let file = try ProtectedFile.open(below.reduce(place) { $0.appending($1) }, .readWrite, keybag: keybag)
                let found = try file.bytes(at: 0, count: Int(file.size()))
                let count = states.firstIndex(of: checksum(found)).map { $0 - 1 }
                try #require(count != nil, "\(cut): \(found.brief) are what no number of commits makes")
                #expect(count! >= acknowledged, "\(cut): \(acknowledged) was acknowledged, \(count!) is there")
                // It can be worked with as if nothing had happened.
                try file.write([1, 2, 3], at: 0)
                try file.close()
                let again = try ProtectedFile.open(below.reduce(place) { $0.appending($1) }, keybag: keybag)
                #expect(try again.bytes(at: 0, count: Int(again.size())) == [1, 2, 3] + found.dropFirst(3))
            }
            cuts += 1
        }
        print("power cuts, \(profile): \(cuts) cuts, \(marks.count - 1) acknowledged commits before them")
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
}
