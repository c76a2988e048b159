import TestEffort
import Testing

/// The knob that says how much the repetitive tests do.
@Suite struct EffortTests {
    /// What a test leaves out today it does within a week.
    @Test(arguments: [1, 7, 30, 365, 20_780] as [UInt64])
    func sevenDaysCoverEverything(first: UInt64) {
        for count in [1, 6, 7, 8, 100] {
            let days = (first..<first + 7).map { day in
                Set((0..<count).filter { Effort.includes($0, seed: day, level: 1) })
            }
            #expect(days.reduce(into: Set()) { $0.formUnion($1) } == Set(0..<count))
            #expect(days.map(\.count).reduce(0, +) == count, "and nothing twice")
        }
    }

    @Test(arguments: 1...7) func aTurnIsOneADay(count: Int) {
        let items = Array(0..<count)
        let days = (20_780..<20_787).map { Effort.turn(of: items, seed: $0, level: 1) }
        #expect(days.allSatisfy { $0.count == 1 })
        #expect(Set(days.joined()) == Set(items), "a week covers all")
        #expect(Effort.turn(of: items, seed: 20_780, level: 7) == items)
        #expect(Effort.turn(of: [Int](), level: 1) == [])
    }

    @Test func fromLevelSevenOnNothingIsLeftOut() {
        for level in 7...100 { #expect((0..<20).allSatisfy { Effort.includes($0, seed: 3, level: level) }) }
        #expect(!(0..<20).allSatisfy { Effort.includes($0, seed: 3, level: 6) })
    }

    /// The line that a test prints repeats what it did.
    @Test func aSeedRepeats() {
        var (one, same, otherTest) = (Effort.generator("one"), Effort.generator("one"), Effort.generator("other", 1))
        let numbers = (0..<100).map { _ in one.next() }
        #expect((0..<100).map { _ in same.next() } == numbers)
        #expect((0..<100).map { _ in otherTest.next() } != numbers)
    }

    @Test func countsGrowFromFewToMany() {
        #expect(Effort.count(12, 200, level: 1) == 12)
        #expect(Effort.count(12, 200, level: 100) == 200)
        #expect((1...99).allSatisfy { Effort.count(12, 200, level: $0) <= Effort.count(12, 200, level: $0 + 1) })
    }
}
