import Glibc
import Testing

@testable import ProtectionKeys

/// The stack below this thread's current frame, where earlier calls leave their locals.
@Suite struct StackScrubTests {
    /// What is looked for, inverted: the search must not find itself.
    static let inverted: UInt64 = ~0x70_72_6F_74_65_63_74_66

    @Test(.enabled(if: dlsym(nil, "__asan_init") == nil, "the address sanitizer keeps locals elsewhere"))
    func scrubbingWipesWhatEarlierCallsLeft() throws {
        var here = 0
        let top = withUnsafePointer(to: &here) { UInt(bitPattern: $0) }

        leaveMarks(depth: 24)
        let left = try marks(below: top)
        try #require(left > 100, "nothing to wipe was left")

        leaveMarks(depth: 24)
        SecretBytes.scrubStack()
        let leftAfterwards = try marks(below: top)
        #expect(leftAfterwards == 0)
    }

    /// Writes 1 KiB of marks into each of `depth` frames, except into the first: its place is the scrubbing call's own.
    @inline(never)
    private func leaveMarks(depth: Int, isFirst: Bool = true) {
        withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 128) { words in
            words.initialize(repeating: isFirst ? 0 : ~Self.inverted)
            if depth > 0 { leaveMarks(depth: depth - 1, isFirst: false) }
            _ = write(-1, words.baseAddress, words.count)  // fails, but keeps the optimiser from leaving the marks out
        }
    }

    /// How many marks are in the 56 KiB below `top`. Read through the kernel: no frame below `top` is in use then.
    private func marks(below top: UInt) throws -> Int {
        let byteCount = 56 * 1024
        var words = [UInt64](repeating: 0, count: byteCount / 8)
        let file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
        try #require(file >= 0)
        defer { close(file) }
        let got = pread(file, &words, byteCount, off_t((top & ~7) - UInt(byteCount)))
        try #require(got == byteCount)
        return words.count { ~$0 == Self.inverted }
    }
}
