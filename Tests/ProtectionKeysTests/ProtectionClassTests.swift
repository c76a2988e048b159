import Testing

@testable import ProtectionKeys

@Suite struct ProtectionClassTests {
    struct Spelling: Sendable {
        let protectionClass: ProtectionClass
        let number: UInt8
        let short: String
        let name: String
        let apple: String
    }

    static let spellings = [
        Spelling(
            protectionClass: .complete, number: 1, short: "complete", name: "complete",
            apple: "NSFileProtectionComplete"),
        Spelling(
            protectionClass: .completeUnlessOpen, number: 2, short: "unless-open", name: "completeUnlessOpen",
            apple: "NSFileProtectionCompleteUnlessOpen"),
        Spelling(
            protectionClass: .completeUntilFirstUserAuthentication, number: 3, short: "first-unlock",
            name: "completeUntilFirstUserAuthentication",
            apple: "NSFileProtectionCompleteUntilFirstUserAuthentication"),
        Spelling(
            protectionClass: .none, number: 4, short: "none", name: "none", apple: "NSFileProtectionNone"),
    ]

    @Test func thereAreFour() {
        #expect(ProtectionClass.allCases == Self.spellings.map(\.protectionClass))
    }

    @Test(arguments: spellings)
    func spellingsRoundTrip(_ spelling: Spelling) {
        #expect(spelling.protectionClass.rawValue == spelling.number)
        #expect(ProtectionClass(rawValue: spelling.number) == spelling.protectionClass)
        #expect(spelling.protectionClass.shortName == spelling.short)
        #expect(ProtectionClass(name: spelling.short) == spelling.protectionClass)
        #expect(spelling.protectionClass.appleName == spelling.apple)
        #expect(ProtectionClass(name: spelling.apple) == spelling.protectionClass)
        #expect("\(spelling.protectionClass)" == spelling.name)
        #expect(ProtectionClass(name: spelling.name) == spelling.protectionClass)
    }

    @Test(arguments: [
        "", " ", "Complete", "complete ", "unlessOpen", "unless open", "firstUnlock", "NONE", "nsfileprotectionnone",
        "NSFileProtection", "NSFileProtectionCompleteWhenUserInactive", "completeWhenUserInactive", "A", "1", "nil",
    ])
    func otherNamesAreNone(name: String) {
        #expect(ProtectionClass(name: name) == Optional.none)
    }

    /// 6 and 7 are kept free for F and CX.
    @Test(arguments: (UInt8.min...UInt8.max).filter { !(1...4).contains($0) })
    func otherNumbersAreNone(number: UInt8) {
        #expect(ProtectionClass(rawValue: number) == Optional.none)
    }

    @Test(arguments: 0..<4, 0..<4)
    func everyPairIsOrdered(_ a: Int, _ b: Int) {
        let weakestFirst: [ProtectionClass] = [
            .none, .completeUntilFirstUserAuthentication, .completeUnlessOpen, .complete,
        ]
        #expect((weakestFirst[a] < weakestFirst[b]) == (a < b))
    }

    @Test func theStrongestIsTheGreatest() {
        #expect(ProtectionClass.allCases.max() == .complete)
        #expect(ProtectionClass.allCases.min() == ProtectionClass.none)
    }
}
