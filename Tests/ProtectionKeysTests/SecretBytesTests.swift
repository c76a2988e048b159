import TestEffort
import Testing

@testable import ProtectionKeys

/// The arena is shared with the tests that run beside these: a slot that is given back may be somebody else's at once.
/// So nothing here looks at freed memory; `SecretArenaTests` does, in arenas of their own.
@Suite struct SecretBytesTests {
    struct Stop: Error {}

    static let sizes = [0, 1, 31, 32, 63, 64, 65, 100, 127, 128, 129, 4095, 4096, 4097, 65536]

    @Test(arguments: sizes)
    func startZeroAndKeepWhatIsWritten(size: Int) {
        var bytes = SecretBytes(zeroed: size)
        #expect(bytes.count == size)
        let before = bytes.readable()
        #expect(before == [UInt8](repeating: 0, count: size))
        bytes.withUnsafeMutableBytes { $0.copyBytes(from: run(from: 0x11, count: size)) }
        let after = bytes.readable()
        #expect(after == run(from: 0x11, count: size))
    }

    /// A slot that is not given back would be another one in each of the 64 rounds.
    @Test(arguments: sizes)
    func slotsAreZeroWhenTheyAreUsedAgain(size: Int) {
        var addresses: Set<UInt> = []
        for round in 0..<64 {
            let bytes = SecretBytes(byteCount: size) { slot in
                #expect(slot.allSatisfy { $0 == 0 }, "round \(round)")
                for index in slot.indices { slot[index] = 0xA5 }
            }
            addresses.insert(bytes.address())
        }
        #expect(addresses.count < 64, "no slot was given back")
    }

    /// Of a key that is longer than the room for it only the room is kept.
    @Test(arguments: [(64, 0, 0), (64, 40, 40), (256, 96, 96), (64, 64, 64), (64, 80, 64)])
    func onlyAsMuchAsWasWrittenIsKept(capacity: Int, written: Int, kept: Int) {
        var bytes = SecretBytes(capacity: capacity) { slot in
            #expect(slot.count == capacity)
            slot.copyBytes(from: run(from: 0x11, count: min(written, capacity)))
            return written
        }
        #expect(bytes.count == kept)
        let read = bytes.readable()
        #expect(read == run(from: 0x11, count: kept))
        bytes.withUnsafeMutableBytes { #expect($0.count == kept) }
    }

    /// What lies behind the bytes that were kept is wiped and given back with them.
    @Test func theWholeRoomIsGivenBack() {
        var addresses: Set<UInt> = []
        for round in 0..<64 {
            let bytes = SecretBytes(capacity: 256) { slot in
                #expect(slot.allSatisfy { $0 == 0 }, "round \(round)")
                for index in slot.indices { slot[index] = 0xA5 }
                return 32
            }
            addresses.insert(bytes.address())
        }
        #expect(addresses.count < 64, "no slot was given back")
    }

    @Test(arguments: sizes)
    func aThrowingFillGivesTheSlotBackAndLeavesItZero(size: Int) {
        var addresses: Set<UInt> = []
        for round in 0..<64 {
            #expect(throws: Stop.self) {
                _ = try SecretBytes(byteCount: size) { slot in
                    #expect(slot.allSatisfy { $0 == 0 }, "round \(round)")
                    for index in slot.indices { slot[index] = 0xA5 }
                    addresses.insert(UInt(bitPattern: slot.baseAddress))
                    throw Stop()
                }
            }
        }
        #expect(addresses.count < 64, "no slot was given back")
    }

    @Test func slotsHeldAtTheSameTimeDoNotOverlap() {
        let sizes = (0..<8).flatMap { _ in Self.sizes.filter { $0 <= 4097 } }
        let held = sizes.enumerated().map { index, size in
            Held(SecretBytes([UInt8](repeating: UInt8(index), count: size)))
        }
        for (index, (size, held)) in zip(sizes, held).enumerated() {
            let bytes = held.bytes.readable()
            #expect(bytes == [UInt8](repeating: UInt8(index), count: size))
        }
    }

    @Test func aCopyIsIndependent() {
        var original = SecretBytes(run(from: 0x11))
        let copy = original.withUnsafeBytes { SecretBytes(copyOf: $0) }
        original.withUnsafeMutableBytes { $0[0] = 0xFF }
        let copied = copy.readable()
        #expect(copied == run(from: 0x11))
    }

    @Test func aCopyOfNothingIsEmpty() {
        #expect(SecretBytes(copyOf: UnsafeRawBufferPointer(start: nil, count: 0)).count == 0)
    }

    @Test(arguments: [0..<0, 0..<32, 0..<1, 31..<32, 8..<24, 32..<32])
    func aSliceIsACopyOfItsRange(range: Range<Int>) {
        let bytes = SecretBytes(run(from: 0x11))
        let slice = bytes.slice(range)
        let (sliced, isElsewhere) = (slice.readable(), slice.address() != bytes.address())
        #expect(sliced == Array(run(from: 0x11)[range]))
        #expect(isElsewhere)
    }

    /// Each task writes its own tag, lets others run, and finds it untouched.
    @Test func tasksReserveAndReleaseAtTheSameTime() async {
        await withTaskGroup(of: Int.self) { group in
            for task in 0..<8 {
                group.addTask {
                    var random = SeededGenerator(seed: UInt64(task))
                    var faults = 0
                    for round in 0..<200 {
                        let size = Int.random(in: 0...600, using: &random)
                        let tag = UInt8(1 + (task * 31 + round) % 255)
                        let bytes = SecretBytes(byteCount: size) { slot in
                            if !slot.allSatisfy({ $0 == 0 }) { faults += 1 }
                            for index in slot.indices { slot[index] = tag }
                        }
                        await Task.yield()
                        if !bytes.readable().allSatisfy({ $0 == tag }) { faults += 1 }
                    }
                    return faults
                }
            }
            for await faults in group { #expect(faults == 0) }
        }
    }
}
