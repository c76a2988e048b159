import Testing

@testable import ProtectionKeys

@Suite struct RandomnessTests {
    @Test(arguments: [0, 1, 12, 16, 32, 1000])
    func thereAreAsManyBytesAsAskedFor(count: Int) throws {
        #expect(try Randomness.bytes(count).count == count)
    }

    /// Fails by chance once in 2^248 runs.
    @Test func everyBitIsOneAndZeroInTurn() throws {
        var ones = [UInt8](repeating: 0, count: 12)
        var zeros = ones
        for _ in 0..<256 {
            for (index, byte) in try Randomness.bytes(12).enumerated() {
                ones[index] |= byte
                zeros[index] |= ~byte
            }
        }
        #expect(zip(ones, zeros).allSatisfy { $0 & $1 == 0xFF })
    }

    @Test func everyBitOfAnEpochIsOneAndZeroInTurn() throws {
        var ones: UInt64 = 0
        var zeros: UInt64 = 0
        for _ in 0..<256 {
            let epoch = try Randomness.epoch()
            #expect(epoch != 0)
            ones |= epoch
            zeros |= ~epoch
        }
        #expect(ones & zeros == .max)
    }

    @Test func everyBitOfSecretBytesIsOneAndZeroInTurn() throws {
        var ones = [UInt8](repeating: 0, count: 32)
        var zeros = ones
        for _ in 0..<256 {
            for (index, byte) in try SecretBytes(randomByteCount: 32).readable().enumerated() {
                ones[index] |= byte
                zeros[index] |= ~byte
            }
        }
        #expect(zip(ones, zeros).allSatisfy { $0 & $1 == 0xFF })
    }
}
