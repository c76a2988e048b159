import ProtectionFormat
import ProtectionKeys

/// A run of chunks, sealed one behind the other as they will lie in the file.
struct SealedRun {
    let bytes: [UInt8]

    init(
        _ text: UnsafeRawBufferPointer, from index: UInt64, _ layout: ChunkLayout, _ keys: FileKeys
    ) throws(DataProtectionError) {
        let count = Int(layout.chunkCount(size: UInt64(text.count)))
        let length = text.count + count * ChunkLayout.overhead
        let nonces = try withKeys { () throws(KeyError) in try Randomness.bytes(12 * count) }
        var result: Result<Void, DataProtectionError> = .success(())
        bytes = [UInt8](unsafeUninitializedCapacity: length) { buffer, initialized in
            do throws(DataProtectionError) {
                try nonces.lendBytes { nonces throws(DataProtectionError) in
                    try Self.seal(text, index, layout, keys, nonces, into: UnsafeMutableRawBufferPointer(buffer))
                }
                initialized = length
            } catch {
                result = .failure(error)
            }
        }
        try result.get()
    }

    private static func seal(
        _ text: UnsafeRawBufferPointer, _ index: UInt64, _ layout: ChunkLayout, _ keys: FileKeys,
        _ nonces: UnsafeRawBufferPointer, into sealed: UnsafeMutableRawBufferPointer
    ) throws(DataProtectionError) {
        for step in 0..<nonces.count / 12 {
            let start = step * layout.chunkSize
            let chunk = UnsafeRawBufferPointer(rebasing: text[start...].prefix(layout.chunkSize))
            let target = start + step * ChunkLayout.overhead
            try keys.seal(
                chunk: index + UInt64(step), chunk,
                nonce: UnsafeRawBufferPointer(rebasing: nonces[12 * step..<12 * step + 12]),
                into: UnsafeMutableRawBufferPointer(
                    rebasing: sealed[target..<target + chunk.count + ChunkLayout.overhead]))
        }
    }
}
