import Glibc
import ProtectionKeys

/// Sealing and opening chunks in memory, a MiB at a time, as files do it: one request for nonces, one seal a chunk.
enum Memory {
    private static let segment = 1 << 20
    private static let associated = [UInt8](repeating: 7, count: 36)

    static func seal(chunk: Int, seconds: Double) throws {
        let buffers = Buffers(chunk: chunk)
        var sealer = try Sealer(key: try SecretBytes(randomByteCount: 32))
        try measure(seconds, chunks: segment / chunk) { try buffers.seal(&sealer) }
    }

    static func open(chunk: Int, seconds: Double) throws {
        let buffers = Buffers(chunk: chunk)
        let key = try SecretBytes(randomByteCount: 32)
        var sealer = try Sealer(key: key)
        var opener = try Opener(key: key)
        try buffers.seal(&sealer)
        try measure(seconds, chunks: segment / chunk) { try buffers.open(&opener) }
    }

    private static func measure(_ seconds: Double, chunks: Int, _ body: () throws -> Void) rethrows {
        try body()
        var rounds = 0
        let start = Rounds.now()
        while Rounds.now() - start < seconds {
            try body()
            rounds += 1
        }
        let taken = (Rounds.now() - start) / Double(rounds * chunks)
        print("{\"seconds\": [\(taken)]}")
    }

    private final class Buffers {
        let chunk: Int
        let text = UnsafeMutableRawBufferPointer.allocate(byteCount: segment, alignment: 64)
        let sealed: UnsafeMutableRawBufferPointer

        init(chunk: Int) {
            self.chunk = chunk
            sealed = .allocate(byteCount: segment + segment / chunk * 28, alignment: 64)
            text.initializeMemory(as: UInt8.self, repeating: 1)
            sealed.initializeMemory(as: UInt8.self, repeating: 0)
        }

        deinit {
            text.deallocate()
            sealed.deallocate()
        }

        func seal(_ sealer: inout Sealer) throws {
            let nonces = try Randomness.bytes(12 * (segment / chunk))
            try nonces.withUnsafeBytes { nonces in
                try Memory.associated.withUnsafeBytes { associated in
                    for index in 0..<segment / chunk {
                        try sealer.seal(
                            UnsafeRawBufferPointer(rebasing: text[index * chunk..<(index + 1) * chunk]),
                            nonce: UnsafeRawBufferPointer(rebasing: nonces[12 * index..<12 * index + 12]),
                            associated: associated, into: place(index))
                    }
                }
            }
        }

        func open(_ opener: inout Opener) throws {
            try Memory.associated.withUnsafeBytes { associated in
                for index in 0..<segment / chunk {
                    try opener.open(
                        UnsafeRawBufferPointer(place(index)), associated: associated,
                        into: UnsafeMutableRawBufferPointer(rebasing: text[index * chunk..<(index + 1) * chunk]))
                }
            }
        }

        private func place(_ index: Int) -> UnsafeMutableRawBufferPointer {
            UnsafeMutableRawBufferPointer(rebasing: sealed[index * (chunk + 28)..<(index + 1) * (chunk + 28)])
        }
    }
}
