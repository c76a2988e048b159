import Testing

@testable import PasswordHash

@Suite("Iterations")
struct IterationsTests {
    @Test("10,000 to 100,000,000, and nothing else", arguments: [Int.min, -1, 0, 1, 1000, 9_999, 100_000_001, Int.max])
    func refused(count: Int) {
        #expect(
            error { _ = try Iterations(count) } == .iterationsOutOfRange(count, allowed: 10_000...100_000_000))
    }

    @Test("Both ends are accepted", arguments: [10_000, 600_000, 100_000_000])
    func accepted(count: Int) throws {
        #expect(try Iterations(count).count == count)
    }

    @Test("The recommended count is OWASP's number")
    func recommended() { #expect(Iterations.recommended.count == 600_000) }

    @Test("A measurement is held within the bounds, and to the least that is asked for")
    func measured() throws {
        #expect(Iterations.measured(3, least: nil).count == 10_000)
        #expect(Iterations.measured(345_678, least: nil).count == 345_678)
        #expect(Iterations.measured(345_678, least: .recommended) == .recommended)
        #expect(Iterations.measured(700_000, least: .recommended).count == 700_000)
        #expect(Iterations.measured(.max, least: nil).count == 100_000_000)
    }

    /// How long it takes is printed, not asserted: other work on this machine has a say.
    @Test("Calibrated for 80 to 100 ms")
    func calibrated() throws {
        let found = try Iterations.calibrated()
        #expect(Iterations.allowed.contains(found.count))
        let parameters = ClientKeyParameters(iterations: found)
        let best = try (0..<3).map { _ in
            try ContinuousClock().measure {
                _ = try PasswordHash.clientKey(
                    password: SecretBytes("x"), site: "a", userID: "b", parameters: parameters)
            }
        }.min()!
        print("calibrated: \(found.count) iterations, a client key in \(best)")
    }
}
