import ProtectionKeys

/// The digests and MACs of one download, made of its bytes as they come. One thread at a time.
final class RunningChecks {
    private let checks: [IntegrityCheck]
    private var sums: [SumBox]
    /// How many bytes went in.
    private(set) var length: UInt64 = 0

    /// Noncopyable values have no place in an array.
    private final class SumBox {
        let check: IntegrityCheck
        private var digest: RunningDigest?

        init(_ check: IntegrityCheck, _ digest: consuming RunningDigest) {
            self.check = check
            self.digest = consume digest
        }

        func update(_ bytes: UnsafeRawBufferPointer) throws(KeyError) { try digest?.update(bytes) }

        func finish() throws(KeyError) -> [UInt8] {
            guard let digest = digest.take() else { return [] }
            return try digest.finish()
        }
    }

    /// - Parameter keys: those that MACs are checked with, by id.
    init(_ checks: [IntegrityCheck], keys: [String: IntegrityKey]) throws(DownloadError) {
        self.checks = checks
        sums = []
        for check in checks {
            switch check {
            case .length: break
            case .digest(let algorithm, _):
                sums.append(SumBox(check, try withKeys { () throws(KeyError) in try RunningDigest(algorithm) }))
            case .hmacSHA256(let id, _):
                guard let key = keys[id] else { throw .unknownIntegrityKey(id: id) }
                sums.append(SumBox(check, try key.running()))
            }
        }
    }

    /// Whether anything is made of the bytes but their number.
    var isEmpty: Bool { sums.isEmpty }

    /// Takes the next bytes.
    func update(_ bytes: UnsafeRawBufferPointer) throws(DownloadError) {
        length += UInt64(bytes.count)
        for sum in sums { try withKeys { () throws(KeyError) in try sum.update(bytes) } }
    }

    /// Counts bytes of which nothing but their number matters.
    func skip(_ count: UInt64) { length += count }

    /// What is not as it must be, after the last byte; nil: all is well. Compares in constant time.
    func failure() throws(DownloadError) -> DownloadFailure? {
        for case .length(let expected) in checks where expected != length {
            return DownloadFailure(.checksum, "\(length) bytes came, and \(expected) were expected")
        }
        for sum in sums {
            let actual = try withKeys { () throws(KeyError) in try sum.finish() }
            switch sum.check {
            case .digest(let algorithm, let expected) where !areEqualInConstantTime(actual, expected):
                return DownloadFailure(
                    .checksum,
                    "\(algorithm.rawValue) is \(Hexadecimal.text(actual)), and \(Hexadecimal.text(expected)) was expected"
                )
            case .hmacSHA256(let id, let expected) where !areEqualInConstantTime(actual, expected):
                // The actual value would help a forger.
                return DownloadFailure(.checksum, "the HMAC under the key \(id) is not the expected one")
            default: break
            }
        }
        return nil
    }
}
