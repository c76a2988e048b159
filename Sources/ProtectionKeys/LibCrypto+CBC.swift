import CLibCrypto
import CSecretMemory

/// AES-256-CBC of text that comes piece by piece: EVP_CipherInit(3). It authenticates nothing, so it is only for formats of others
/// that have a MAC beside it.
extension LibCrypto {
    private static let cbc = Fetched(EVP_CIPHER_fetch(nil, "AES-256-CBC", nil))
    /// EVP_CipherUpdate(3) counts with an int.
    private static let mostAtOnce = 1 << 30

    /// A context with key and initial value, without padding; free it with ``freeCBC(_:)``, which wipes it.
    static func makeCBC(
        key: UnsafeRawBufferPointer, initial: [UInt8], sealing: Bool
    ) throws(KeyError) -> OpaquePointer {
        precondition(key.count == 32 && initial.count == 16)
        guard let context = EVP_CIPHER_CTX_new() else { throw failure("AES-CBC") }
        guard EVP_CipherInit_ex2(context, cbc.pointer, key.pointer, initial, sealing ? 1 : 0, nil) == 1,
            EVP_CIPHER_CTX_set_padding(context, 0) == 1
        else {
            freeCBC(context)
            throw failure("AES-CBC")
        }
        return context
    }

    static func freeCBC(_ context: OpaquePointer) {
        EVP_CIPHER_CTX_free(context)
        protectfs_clear_vectors()
    }

    /// `input` and `output`: whole blocks of 16 bytes, as many of each.
    static func updateCBC(
        _ context: OpaquePointer, _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        precondition(input.count % 16 == 0 && output.count == input.count)
        var done = 0
        while done < input.count {
            let part = UnsafeRawBufferPointer(rebasing: input[done...].prefix(mostAtOnce))
            let place = UnsafeMutableRawBufferPointer(rebasing: output[done...])
            var written: Int32 = 0
            try check("AES-CBC", EVP_CipherUpdate(context, place.pointer, &written, part.pointer, Int32(part.count)))
            guard Int(written) == part.count else { throw failure("AES-CBC") }
            done += part.count
        }
    }
}
