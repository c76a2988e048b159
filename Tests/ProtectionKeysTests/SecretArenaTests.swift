import TestEffort
import Testing

@testable import ProtectionKeys

/// Each test has an arena of its own, so that it may look at memory that was given back. No more arenas than needed:
/// an arena's locked memory stays with the process, and a user may have 8 MiB of it.
@Suite struct SecretArenaTests {
    @Test func aReleasedSlotIsZeroAtOnce() {
        let arena = SecretArena()
        for size in [1, 32, 63, 64, 65, 200, 4096, 4097] {
            let slot = arena.reserve(byteCount: size)
            for index in slot.indices { slot[index] = 0xA5 }
            arena.zeroAndRelease(slot)
            #expect(slot.allSatisfy { $0 == 0 }, "\(size) bytes")

            let again = arena.reserve(byteCount: size)
            #expect(again.baseAddress == slot.baseAddress && again.count == size)
            #expect(again.allSatisfy { $0 == 0 }, "\(size) bytes")
            arena.zeroAndRelease(again)
        }
    }

    @Test func anEmptySlotHasAPlaceOfItsOwn() {
        let arena = SecretArena()
        let slots = [arena.reserve(byteCount: 0), arena.reserve(byteCount: 0), arena.reserve(byteCount: 1)]
        #expect(Set(slots.map { $0.baseAddress }).count == 3)
        #expect(slots[0].count == 0)
        arena.zeroAndRelease(slots[0])
        #expect(arena.reserve(byteCount: 0).baseAddress == slots[0].baseAddress)
    }

    @Test func aGapIsUsedOnlyByWhatFits() {
        let arena = SecretArena()
        let slots = (0..<3).map { _ in arena.reserve(byteCount: 64) }
        arena.zeroAndRelease(slots[1])
        let tooLarge = arena.reserve(byteCount: 65)
        for slot in [slots[0], slots[2]] { #expect(!overlap(tooLarge, slot)) }
        let fitting = arena.reserve(byteCount: 64)
        #expect(fitting.baseAddress == slots[1].baseAddress)
    }

    @Test func releasingASlotFreesNothingBehindIt() {
        let arena = SecretArena()
        let first = arena.reserve(byteCount: 64)
        let second = arena.reserve(byteCount: 64)
        arena.zeroAndRelease(first)
        let third = arena.reserve(byteCount: 1)
        let fourth = arena.reserve(byteCount: 1)
        #expect(third.baseAddress == first.baseAddress)
        #expect(!overlap(fourth, second) && !overlap(fourth, third))
    }

    /// A region is 256 KiB: a slot of that size needs all of one, a larger one a larger region.
    @Test func aLargeSlotIsWhole() {
        let arena = SecretArena()
        let small = arena.reserve(byteCount: 64)
        for size in [256 * 1024, 256 * 1024 + 1, 300_000] {
            let large = arena.reserve(byteCount: size)
            #expect(large.count == size)
            #expect(!overlap(small, large))
            #expect(large.allSatisfy { $0 == 0 })
            for index in large.indices { large[index] = 0xA5 }
            arena.zeroAndRelease(large)
            #expect(large.allSatisfy { $0 == 0 })
        }
    }

    /// A quarter more than the 4,096 slots of one region.
    @Test func theArenaGrows() {
        let arena = SecretArena()
        let slots = (0..<5120).map { _ in arena.reserve(byteCount: 64) }
        #expect(Set(slots.map { $0.baseAddress }).count == 5120)
        for (index, slot) in slots.enumerated() { slot.storeBytes(of: UInt64(index), as: UInt64.self) }
        #expect(slots.enumerated().allSatisfy { index, slot in slot.load(as: UInt64.self) == UInt64(index) })
        for slot in slots { arena.zeroAndRelease(slot) }
        let again = (0..<5120).map { _ in arena.reserve(byteCount: 64) }
        #expect(Set(again.map { $0.baseAddress }) == Set(slots.map { $0.baseAddress }))
        #expect(again.allSatisfy { $0.allSatisfy { $0 == 0 } })
    }

    /// 10,000 random steps, held against a list of what is taken.
    @Test func slotsNeverOverlapAndAreZero() {
        let arena = SecretArena()
        var random = Effort.generator("slots")
        var held: [(slot: UnsafeMutableRawBufferPointer, tag: UInt8)] = []
        for step in 0..<10000 {
            if held.count < 64 && Bool.random(using: &random) {
                let slot = arena.reserve(byteCount: Int.random(in: 0...700, using: &random))
                #expect(slot.allSatisfy { $0 == 0 }, "step \(step)")
                let tag = UInt8.random(in: 1...255, using: &random)
                for index in slot.indices { slot[index] = tag }
                held.append((slot, tag))
            } else if let index = held.indices.randomElement(using: &random) {
                let (slot, tag) = held.remove(at: index)
                #expect(slot.allSatisfy { $0 == tag }, "step \(step)")
                arena.zeroAndRelease(slot)
            }
        }
        #expect(held.allSatisfy { slot, tag in slot.allSatisfy { $0 == tag } })
    }

    private func overlap(_ a: UnsafeMutableRawBufferPointer, _ b: UnsafeMutableRawBufferPointer) -> Bool {
        a.baseAddress! < b.baseAddress! + b.count && b.baseAddress! < a.baseAddress! + a.count
    }
}
