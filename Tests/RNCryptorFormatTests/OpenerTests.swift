import ProtectionKeys
import Testing

@testable import RNCryptorFormat

/// The second way through a message that somebody writes to meanwhile.
@Suite struct OpenerTests {
    private let message: [UInt8]
    private static let stretch = RNCryptorOpener.longestPiece
    private static let size = 3 * stretch + 5

    init() throws { message = try sealed(pattern(Self.size), with: .anyKeys()) }

    /// In the first stretch, at its edges, and in the last one.
    @Test(arguments: [18, stretch, stretch + 17, stretch + 18, 2 * stretch + 100, 3 * stretch + 18, 3 * stretch + 33])
    func nothingOfAChangedStretchComesOut(index: Int) throws {
        var opener = try verified(message, with: .anyKeys(), pieces: [100_000])
        var changed = message
        changed[index] ^= 1
        var good = 0
        while let range = opener.next {
            let piece = Array(changed[Int(range.lowerBound)..<Int(range.upperBound)])
            var output = [UInt8](repeating: 0xEE, count: piece.count)
            if range.contains(Int64(index)) {
                #expect(throws: RNCryptorError.changedSinceVerified) {
                    try piece.lendBytes { piece throws(RNCryptorError) in
                        try output.lendMutableBytes { output throws(RNCryptorError) in
                            _ = try opener.open(piece, into: output)
                        }
                    }
                }
                #expect(output.allSatisfy { $0 == 0xEE })
                break
            }
            good += try piece.lendBytes { piece throws(RNCryptorError) in
                try output.lendMutableBytes { output throws(RNCryptorError) in try opener.open(piece, into: output) }
            }
        }
        // What came before is right, and nothing comes afterwards.
        #expect(good == (index - 18) / Self.stretch * Self.stretch)
        let isOver = opener.next == nil
        #expect(isOver)
        #expect(throws: RNCryptorError.unusable) {
            var none: [UInt8] = []
            try none.lendMutableBytes { none throws(RNCryptorError) in
                _ = try opener.open(UnsafeRawBufferPointer(none), into: none)
            }
        }
    }

    @Test func asksForEveryByteOnce() throws {
        var opener = try verified(message, with: .anyKeys(), pieces: [Self.stretch])
        var ranges: [Range<Int64>] = []
        while let range = opener.next {
            ranges.append(range)
            var piece = Array(message[Int(range.lowerBound)..<Int(range.upperBound)])
            _ = try piece.lendMutableBytes { piece throws(RNCryptorError) in
                try opener.open(UnsafeRawBufferPointer(piece), into: piece)
            }
        }
        #expect(ranges.first?.lowerBound == 18 && ranges.last?.upperBound == Int64(message.count - 32))
        #expect(zip(ranges, ranges.dropFirst()).allSatisfy { $0.upperBound == $1.lowerBound })
        #expect(ranges.dropLast().allSatisfy { $0.count == Self.stretch })
    }

    @Test func otherLengthsAreRefusedAndChangeNothing() throws {
        var opener = try verified(message, with: .anyKeys(), pieces: [4096])
        guard let range = opener.next else { throw RNCryptorError.unusable }
        var piece = Array(message[Int(range.lowerBound)..<Int(range.upperBound)])
        for (input, output) in [(0, piece.count), (piece.count - 16, piece.count), (piece.count, piece.count - 1)] {
            #expect(throws: RNCryptorError.self) {
                var room = [UInt8](repeating: 0, count: output)
                try Array(piece[..<input]).lendBytes { input throws(RNCryptorError) in
                    try room.lendMutableBytes { room throws(RNCryptorError) in _ = try opener.open(input, into: room) }
                }
            }
        }
        let count = try piece.lendMutableBytes { piece throws(RNCryptorError) in
            try opener.open(UnsafeRawBufferPointer(piece), into: piece)
        }
        #expect(piece[..<count] == pattern(Self.size)[..<count])
    }

    @Test func aSealerNeedsRoom() throws {
        var sealer = try RNCryptorSealer(.anyKeys())
        var room = [UInt8](repeating: 0, count: 24)
        #expect(throws: RNCryptorError.wrongLength(expected: 25, actual: 24)) {
            try pattern(10).lendBytes { text throws(RNCryptorError) in
                try room.lendMutableBytes { room throws(RNCryptorError) in _ = try sealer.seal(text, into: room) }
            }
        }
        let header = sealer.header
        #expect(try opened(header + sealer.finish(), with: .anyKeys()) == [])
    }
}
