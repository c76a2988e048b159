import StormScript
import TestEffort
import Testing

@testable import DataProtection

/// Protected files behave as plain ones: every size at every border, through handles of one and of two processes.
@Suite struct ModelTests {
    private static let operations = Effort.count(2_000, 20_000)

    @Test(arguments: [
        ModelRun.Mix(protectionClass: .complete),
        ModelRun.Mix(protectionClass: .completeUnlessOpen, isLarge: true),
        ModelRun.Mix(protectionClass: .completeUntilFirstUserAuthentication, isReaderRemote: true),
        ModelRun.Mix(protectionClass: .complete, isLarge: true, isWriterRemote: true),
        ModelRun.Mix(protectionClass: .none, isWriterRemote: true),
    ])
    func agreesWithModel(_ mix: ModelRun.Mix) throws {
        let salt = UInt64(mix.protectionClass.rawValue) * 8 + (mix.isLarge ? 4 : 0) + (mix.isWriterRemote ? 2 : 0)
        var run = try ModelRun(mix, Effort.generator("ModelTests, \(mix.testDescription)", salt))
        try run.run(Self.operations)
        print("ModelTests, \(mix.testDescription): \(run.operations) operations")
        #expect(run.operations >= Self.operations)
    }
}
