import Testing

@testable import ProtectionKeys

/// What the answer is; that its time tells nothing is CRYPTO_memcmp(3)'s promise and not measured.
@Suite struct ConstantTimeComparisonTests {
    @Test(arguments: [0, 1, 2, 16, 31, 32, 33, 64, 1000])
    func equalBytesAreEqual(length: Int) {
        #expect(areEqualInConstantTime(run(from: 0x10, count: length), run(from: 0x10, count: length)))
        let zeros = [UInt8](repeating: 0, count: length)
        #expect(areEqualInConstantTime(zeros, zeros))
    }

    @Test(arguments: [1, 2, 16, 31, 32, 33, 64])
    func oneOtherBitIsUnequal(length: Int) {
        let bytes = run(from: 0x10, count: length)
        for flipped in everyBitFlipped(in: bytes) {
            #expect(!areEqualInConstantTime(bytes, flipped))
            #expect(!areEqualInConstantTime(flipped, bytes))
        }
    }

    /// Differences in two places must not cancel each other.
    @Test func twoOtherBitsAreUnequal() {
        let bytes = [UInt8](repeating: 0, count: 8)
        for flippedOnce in everyBitFlipped(in: bytes) {
            for flipped in everyBitFlipped(in: flippedOnce) where flipped != bytes {
                #expect(!areEqualInConstantTime(bytes, flipped))
            }
        }
    }

    @Test(arguments: 0..<4, 0..<4)
    func everyPairOfShortStrings(_ a: Int, _ b: Int) {
        let strings: [[UInt8]] = [[0, 0], [0, 1], [1, 0], [1, 1]]
        #expect(areEqualInConstantTime(strings[a], strings[b]) == (a == b))
    }

    @Test(arguments: [(0, 1), (1, 2), (31, 32), (32, 64)])
    func otherLengthsAreUnequal(short: Int, long: Int) {
        for (a, b) in [(short, long), (long, short)] {
            #expect(!areEqualInConstantTime(run(from: 0x10, count: a), run(from: 0x10, count: b)))
            #expect(!areEqualInConstantTime([UInt8](repeating: 0, count: a), [UInt8](repeating: 0, count: b)))
        }
    }
}
