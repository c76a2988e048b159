import CSecretMemory

extension LibCrypto {
    /// Fetched once: an implicit fetch per operation costs more than sealing 4 KiB.
    struct Fetched<Pointer>: @unchecked Sendable {  // libcrypto's method objects are immutable
        let pointer: Pointer

        /// - Parameter fetch: must allocate nothing that later holds a key.
        init(_ fetch: @autoclosure () -> Pointer) {
            protectfs_begin_fetch()
            defer { protectfs_end_fetch() }
            pointer = fetch()
        }
    }
}
