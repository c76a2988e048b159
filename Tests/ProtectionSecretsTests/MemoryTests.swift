import Foundation
import ProtectionKeys
import TestEffort
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// A process that read secrets and dropped them, after a lock.
@Suite struct SecretMemoryTests {
    @Test(.enabled(if: !Effort.isSanitized, "a sanitizer keeps memory of its own"))
    func nothingIsLeft() throws {
        let bed = try SecretsBed()
        // A value that nobody else has: random, and the same in no two places of this process either.
        let planted = (0..<40).map { _ in UInt8.random(in: 1...255) }
        for number in 0..<200 {
            try bed.store.add(
                .genericPassword(service: "planted", account: "account \(number)"), value: secret(planted))
        }
        let worker = try SecretsWorker.start(bed, "hold", "planted")
        defer { worker.kill() }
        let said = String(decoding: worker.next(), as: UTF8.self)
        #expect(said == "200 \(200 * planted.count)\n")
        try bed.keybag.lock()
        let found = try Search(worker.process.processIdentifier)
        // What is clear is found, or the search is blind.
        #expect(found.contains(Array("account 199".utf8)))
        #expect(found.bytes > 1_000_000)
        #expect(!found.contains(planted))
        #expect(!found.contains(Array(planted[4..<36])), "not even a part of it")
        print("secrets: \(found.bytes) bytes of a process that had read 200 secrets searched after a lock: none found")
    }

    /// All memory of a process that can be read.
    private struct Search {
        private var pieces: [[UInt8]] = []
        var bytes: Int { pieces.reduce(0) { $0 + $1.count } }

        init(_ pid: Int32) throws {
            let memory = open("/proc/\(pid)/mem", O_RDONLY)
            guard memory >= 0 else { throw Errno(rawValue: errno) }
            defer { close(memory) }
            for line in try String(contentsOfFile: "/proc/\(pid)/maps", encoding: .utf8).split(separator: "\n") {
                let fields = line.split(separator: " ")
                let bounds = fields[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
                guard fields[1].hasPrefix("rw"), bounds.count == 2 else { continue }
                var piece = [UInt8](repeating: 0, count: Int(bounds[1] - bounds[0]))
                let count = piece.withUnsafeMutableBytes { pread(memory, $0.baseAddress, $0.count, off_t(bounds[0])) }
                if count > 0 { pieces.append(Array(piece[..<count])) }
            }
        }

        func contains(_ bytes: [UInt8]) -> Bool {
            pieces.contains { piece in
                piece.withUnsafeBytes { piece in
                    var rest = piece[...]
                    while let found = memchr(piece.baseAddress! + rest.startIndex, Int32(bytes[0]), rest.count) {
                        let index = UnsafeRawPointer(found) - piece.baseAddress!
                        guard piece.count - index >= bytes.count else { return false }
                        if memcmp(found, bytes, bytes.count) == 0 { return true }
                        rest = piece[(index + 1)...]
                    }
                    return false
                }
            }
        }
    }
}
