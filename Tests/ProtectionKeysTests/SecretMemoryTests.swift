import Foundation
import Glibc
import Testing

@testable import ProtectionKeys

/// What the kernel says about the memory that key bytes lie in.
@Suite struct SecretMemoryTests {
    /// Reserved before the first test runs: those that use up RLIMIT_MEMLOCK cannot change where it lies.
    private static let early = Held(SecretBytes(run(from: 0x11)))
    private static let isEarlyInSecretMemory = early.bytes.count == 32 && SecretBytes.backing == .secretMemory

    @Test func theBackingReportedIsTheOneInForce() throws {
        let arena = SecretArena()
        let reportedBefore = arena.backing
        let slot = arena.reserve(byteCount: 32)
        let mapping = try Mapping(containing: UInt(bitPattern: slot.baseAddress))
        let expected: SecretMemoryBacking =
            mapping.path.hasPrefix("/secretmem") ? .secretMemory : mapping.flags.contains("lo") ? .locked : .unlocked
        #expect(reportedBefore == expected)
        #expect(arena.backing == expected)
    }

    @Test func secretMemoryIsUsedWhereTheKernelGivesIt() {
        let isGiven = kernelGivesSecretMemory(byteCount: 256 * 1024)
        #expect((SecretArena().backing == .secretMemory) == isGiven)
    }

    /// `dc`: a child of fork(2) does not get it. `dd`: not in a core dump.
    @Test func secretMemoryIsNeitherForkedNorDumped() throws {
        let bytes = SecretBytes(run(from: 0x11))
        let mapping = try Mapping(containing: bytes.address())
        #expect(mapping.flags.isSuperset(of: ["dc", "dd"]))

        let ordinary = try [UInt8](repeating: 1, count: 64).withUnsafeBytes {
            try Mapping(containing: UInt(bitPattern: $0.baseAddress))
        }
        #expect(ordinary.flags.isDisjoint(with: ["dc", "dd"]), "the kernel shows these flags for what has them only")
    }

    @Test(
        .enabled(
            if: isEarlyInSecretMemory,
            "the kernel gives no memfd_secret(2) here, and /proc/self/mem can read other memory"))
    func secretBytesCannotBeReadThroughProc() {
        #expect(readThroughProc(Self.early.bytes.address(), count: 32) == .failure(EIO))
        let stillThere = Self.early.bytes.readable()
        #expect(stillThere == run(from: 0x11))
    }

    @Test func ordinaryBytesCanBeReadThroughProc() {
        let bytes = run(from: 0x11)
        let read = bytes.withUnsafeBytes { readThroughProc(UInt(bitPattern: $0.baseAddress), count: 32) }
        #expect(read == .success(bytes))
    }

    enum Read: Equatable {
        case success([UInt8])
        case failure(Int32)
    }

    private func readThroughProc(_ address: UInt, count: Int) -> Read {
        let file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return .failure(errno) }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: count)
        let got = pread(file, &bytes, count, off_t(address))
        return got < 0 ? .failure(errno) : .success(Array(bytes.prefix(got)))
    }
}

/// Whether this process may have `byteCount` bytes of memfd_secret(2), asked without the library.
private func kernelGivesSecretMemory(byteCount: Int) -> Bool {
    // Swift does not import syscall(2), which is variadic. 447 is the number on every architecture.
    typealias SystemCall = @convention(c) (Int, Int) -> Int
    guard let symbol = dlsym(nil, "syscall") else { return false }
    let file = Int32(truncatingIfNeeded: unsafeBitCast(symbol, to: SystemCall.self)(447, Int(O_CLOEXEC)))
    guard file >= 0 else { return false }
    defer { close(file) }
    guard ftruncate(file, byteCount) == 0 else { return false }
    let memory = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
    guard memory != MAP_FAILED else { return false }
    munmap(memory, byteCount)
    return true
}

/// One mapping of /proc/self/smaps; proc_pid_smaps(5).
private struct Mapping {
    struct NotFound: Error {}

    let path: String
    let flags: Set<String>

    init(containing address: UInt) throws {
        // String(contentsOfFile:) stops after the first page: the file says that it is empty.
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/self/smaps"))
        let text = String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
        var path: String?
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            let bounds = words[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
            if bounds.count == 2 {
                path = (bounds[0]..<bounds[1]).contains(address) ? words.dropFirst(5).joined(separator: " ") : nil
            } else if let path, words[0] == "VmFlags:" {
                self.path = path
                flags = Set(words.dropFirst().map(String.init))
                return
            }
        }
        throw NotFound()
    }
}
