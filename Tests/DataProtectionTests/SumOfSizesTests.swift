import Testing

@testable import DataProtection

@Suite("Sums of the sizes of files")
struct SumOfSizesTests {
    @Test("Stop at the largest number")
    func saturates() {
        #expect(Int64(1).adding(size: 2) == 3)
        #expect(Int64(5).adding(size: -7) == -2)
        #expect(Int64.max.adding(size: 1) == .max)
        #expect((Int64.max - 1).adding(size: 1) == .max)
        #expect(Int64.min.adding(size: -1) == .min)
    }

    @Test("Of several threads too")
    func counter() async {
        let counter = ByteCounter()
        await withTaskGroup { group in
            for _ in 0..<8 { group.addTask { for _ in 0..<1000 { counter.add(3) } } }
        }
        #expect(counter.bytes == 24_000)
        for _ in 0..<9 { counter.add(1 << 60) }
        #expect(counter.bytes == .max)
    }
}
