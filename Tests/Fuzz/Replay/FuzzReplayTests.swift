import Foundation
import TestEffort
import TestVectors
import Testing

/// Every input that is kept, given to its reader as libFuzzer gives it: what was found once stays mended. Then each with something
/// changed, as often as the effort says.
@Suite struct FuzzReplayTests {
    private static let corpus = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Corpus")

    @Test(arguments: FuzzTarget.all)
    func keptInputs(_ target: FuzzTarget) throws {
        for (name, bytes) in try inputs(of: target) {
            #expect(throws: Never.self, "\(name)") { try target.run(bytes) }
        }
    }

    @Test(arguments: FuzzTarget.all)
    func changedInputs(_ target: FuzzTarget) throws {
        var generator = Effort.generator("changed inputs of \(target.name)")
        let inputs = try inputs(of: target)
        for (name, bytes) in inputs {
            for number in 0..<Effort.count(4, 400) {
                let changed = bytes.changed(with: inputs.randomElement(using: &generator)!.bytes, using: &generator)
                guard changed.count <= target.longest else { continue }
                #expect(throws: Never.self, "\(name), change \(number)") { try target.run(changed) }
            }
        }
    }

    private func inputs(of target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
        let directory = Self.corpus.appendingPathComponent(target.name)
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        var inputs = try target.seeds().enumerated().map { ("seed-\($0)", $1) }
        inputs += try names.map { ($0, Array(try Data(contentsOf: directory.appendingPathComponent($0)))) }
        #expect(!inputs.isEmpty)
        return inputs.filter { $0.1.count <= target.longest }.sorted { $0.0 < $1.0 }
    }

    /// A folder that no reader has would be looked at by nobody.
    @Test func everyFolderIsOfATarget() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.corpus.path)
        #expect(Set(folders).subtracting(FuzzTarget.all.map(\.name)).isEmpty)
    }
}

extension [UInt8] {
    /// One to three small changes: bits, numbers at an edge, cuts, repetitions, a piece of another input.
    fileprivate func changed(with other: [UInt8], using generator: inout SeededGenerator) -> [UInt8] {
        var bytes = self
        for _ in 0...Int.random(in: 0...2, using: &generator) {
            let place = Int.random(in: 0...bytes.count, using: &generator)
            let end = Int.random(in: place...Swift.min(bytes.count, place + 32), using: &generator)
            switch Int.random(in: 0..<6, using: &generator) {
            case 0 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 1 where place < bytes.count: bytes[place] = [0, 0x7F, 0x80, 0xFF].randomElement(using: &generator)!
            case 2: bytes.removeSubrange(place..<end)
            case 3: bytes.insert(contentsOf: bytes[place..<end], at: place)
            case 4: bytes.removeSubrange(place...)
            default:
                let from = Int.random(in: 0...other.count, using: &generator)
                bytes.replaceSubrange(place..<end, with: other[from..<Swift.min(other.count, from + 32)])
            }
        }
        return bytes
    }
}

extension FuzzTarget: CustomTestStringConvertible {
    var testDescription: String { name }
}
