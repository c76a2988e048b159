import Foundation
import TestVectors
import Testing

/// Every input that is kept, given to its reader as libFuzzer gives it: what was found once stays mended.
@Suite struct FuzzReplayTests {
    private static let corpus = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Corpus")

    @Test(arguments: FuzzTarget.all)
    func keptInputs(_ target: FuzzTarget) throws {
        let directory = Self.corpus.appendingPathComponent(target.name)
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        var inputs = try target.seeds().enumerated().map { ("seed-\($0)", $1) }
        inputs += try names.map { ($0, Array(try Data(contentsOf: directory.appendingPathComponent($0)))) }
        #expect(!inputs.isEmpty)
        for (name, bytes) in inputs where bytes.count <= target.longest {
            #expect(throws: Never.self, "\(name)") { try target.run(bytes) }
        }
    }

    /// A folder that no reader has would be looked at by nobody.
    @Test func everyFolderIsOfATarget() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.corpus.path)
        #expect(Set(folders).subtracting(FuzzTarget.all.map(\.name)).isEmpty)
    }
}

extension FuzzTarget: CustomTestStringConvertible {
    var testDescription: String { name }
}
