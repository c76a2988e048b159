import Glibc
import SystemPackage
import Testing

@testable import FuseSession

@Suite("The memory for requests")
struct RequestBufferTests {
    @Test("A request is wiped before the next one comes")
    func wiped() throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        let buffer = try RequestBuffer(count: 8192)
        #expect(write(ends[1], "a long request", 14) == 14)
        var count = try buffer.receive(from: ends[0])
        #expect(count == 14)
        #expect(buffer.bytes.prefix(14).elementsEqual("a long request".utf8))
        #expect(write(ends[1], "short", 5) == 5)
        count = try buffer.receive(from: ends[0])
        #expect(count == 5)
        #expect(buffer.bytes.prefix(5).elementsEqual("short".utf8))
        #expect(buffer.bytes.dropFirst(5).allSatisfy { $0 == 0 })
    }

    @Test("A descriptor that cannot be read is an error")
    func unreadable() throws {
        let buffer = try RequestBuffer(count: 8192)
        #expect(throws: Errno.badFileDescriptor) { _ = try buffer.receive(from: -1) }
    }

    @Test("It is in no core dump")
    func notDumped() throws {
        let buffer = try RequestBuffer(count: 1 << 20)
        let address = UInt(bitPattern: buffer.bytes.baseAddress)
        let lines = try procText("/proc/self/smaps").split(separator: "\n")
        let first = try #require(
            lines.firstIndex { line in
                let ends = line.prefix { $0 != " " }.split(separator: "-").compactMap { UInt($0, radix: 16) }
                return ends.count == 2 && ends[0] <= address && address < ends[1]
            })
        let flags = try #require(lines[first...].first { $0.hasPrefix("VmFlags:") })
        #expect(flags.split(separator: " ").contains("dd"))
        _ = buffer.bytes.count
    }
}

/// A whole file of /proc, which says that it is empty.
private func procText(_ path: FilePath) throws -> String {
    let descriptor = try FileDescriptor.open(path, .readOnly)
    defer { try? descriptor.close() }
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 65536)
    while true {
        let count = try part.withUnsafeMutableBytes { try descriptor.read(into: $0) }
        if count == 0 { break }
        bytes += part[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
}
