#if PROTECTFS_TESTING
    import Glibc
#endif

/// PBKDF2-HMAC-SHA256 (RFC 8018 §5.2), and how many iterations a machine can afford.
package enum PBKDF2 {
    /// What `iterations` rounds make of a password; this takes as long as they make it.
    ///
    /// HMAC pads a password of less than 64 bytes with zeros, so `a` and `a\0` give the same key. Stored password hashes refuse a zero byte. A
    /// keybag does not: `a\0` opens what `a` opens, and nothing else.
    ///
    /// - Parameters:
    ///   - salt: at most as long as `Int32` can say, and not secret.
    ///   - iterations: from 1 to what `Int32` can say; already checked.
    ///   - byteCount: of the result; more than 32 cost us more, but not somebody who guesses passwords.
    package static func derive(
        _ password: borrowing SecretBytes, salt: [UInt8], iterations: Int, byteCount: Int = 32
    ) throws(KeyError) -> SecretBytes {
        try password.withUnsafeBytes { password throws(KeyError) in
            try SecretBytes(byteCount: byteCount) { output throws(KeyError) in
                try LibCrypto.pbkdf2SHA256(passcode: password, salt: salt, iterations: iterations, into: output)
            }
        }
    }

    /// What a passcode, a recovery code or a backup's passphrase becomes: ``derive(_:salt:iterations:byteCount:)``.
    static func stretch(
        _ secret: borrowing SecretBytes, salt: [UInt8], iterations: Int
    ) throws(KeyError) -> SecretBytes {
        try derive(secret, salt: salt, iterations: affordable(iterations))
    }

    /// That many. Tests run thousands of commands: only a build for them has the line with fewer, and .ci/long does not set the variable.
    private static func affordable(_ iterations: Int) -> Int {
        #if PROTECTFS_TESTING
            if getenv("PROTECTFS_FEWEST_ROUNDS") != nil { return min(iterations, 1_000) }
        #endif
        return iterations
    }

    /// As many iterations as take `target` on this machine, judged by the fastest of three samples: what is in the way of
    /// one makes it slower, never faster.
    ///
    /// - Parameter measure: runs what it is given and says how long that took. There is no clock in this module.
    package static func iterations(
        taking target: Duration, measure: (() throws(KeyError) -> Void) throws(KeyError) -> Duration
    ) throws(KeyError) -> Int {
        let sample = affordable(100_000)
        let nothing = SecretBytes(zeroed: 8)
        var best: Duration?
        for _ in 0..<3 {
            let duration = try measure { () throws(KeyError) in
                _ = try derive(nothing, salt: [UInt8](repeating: 0, count: 32), iterations: sample)
            }
            best = min(best ?? duration, duration)
        }
        // A clock that stood still says nothing; the callers' bounds do.
        let fastest = max(best ?? .nanoseconds(1), .nanoseconds(1))
        return Int(Double(sample) * (target / fastest))
    }
}
