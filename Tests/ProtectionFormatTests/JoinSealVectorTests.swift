import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// FORMAT.md §2.8, *join*.
@Suite struct JoinSealVectorTests {
    @Test(arguments: try FormatVector.all(in: "join-seal"))
    func sealComesToWhatIsExpected(vector: FormatVector) throws {
        let prefix = Prefix(fileID: try vector.fileID(), layout: try vector.layout())
        let headKey = try FileKey(secret: try vector.secret("file key")).headKey(of: prefix.fileID)
        let log = try vector.bytes("log")
        let isGood = try JoinSeal.isGood(try vector.bytes("bytes"), log: log, in: prefix, under: headKey)
        #expect((isGood ? "success" : "nothing") == vector.expect)
        let made = try JoinSeal.seal(log: log, in: prefix, under: headKey)
        #expect(made.count == JoinSeal.length)
        #expect(try JoinSeal.isGood(made, log: log, in: prefix, under: headKey))
    }
}
