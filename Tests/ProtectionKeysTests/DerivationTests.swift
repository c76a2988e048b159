import Testing

@testable import ProtectionKeys

/// FORMAT.md §1.1: every row's label, context and length. What the keys are used for is in `DerivedKeyTests`.
@Suite struct DerivationTests {
    @Test func everyRowHasAScenario() throws {
        let labels = try Set(Vector.all(in: "derivation").map { try $0.text("label") })
        #expect(labels.count == 22)
        for label in labels { #expect(Label(rawValue: label) != nil, "\(label)") }
    }

    @Test(arguments: try Vector.all(in: "derivation"))
    func secretKeyIsTheComputedOne(vector: Vector) throws {
        let key = try vector.secret("key")
        let label = try #require(Label(rawValue: vector.text("label")))
        let context = try vector.bytes("context")
        let byteCount = try vector.bytes("derived").count
        try vector.check("derived") {
            guard vector.has("salt") else { return Array(try key.derive(label, context).readable().prefix(byteCount)) }
            return try key.derive(label, context, salt: vector.secret("salt")).readable()
        }
    }

    @Test(arguments: try Vector.all(in: "derivation").filter { !$0.has("salt") })
    func publicValueIsTheComputedOne(vector: Vector) throws {
        let key = try vector.secret("key")
        let label = try #require(Label(rawValue: vector.text("label")))
        let context = try vector.bytes("context")
        let byteCount = try vector.bytes("derived").count
        try vector.check("derived") { try key.derivePublic(label, context, byteCount: byteCount) }
    }

    @Test func everyLabelGivesAnotherKey() throws {
        let labels = try Set(Vector.all(in: "derivation").map { try $0.text("label") }).compactMap(Label.init)
        let key = SecretBytes(run(from: 0x01))
        var derived: Set<[UInt8]> = []
        for label in labels { derived.insert(try key.derivePublic(label, [], byteCount: 16)) }
        #expect(derived.count == 22)
    }

    /// The 00 between them keeps a label's end from being taken for the context's start.
    @Test func infoEndsTheLabelWithAZeroByte() {
        #expect(Label.headKey.info([0x41]) == Array("protectfs/1 head key".utf8) + [0x00, 0x41])
    }
}
