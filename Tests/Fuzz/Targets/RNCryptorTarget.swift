@testable import ProtectionKeys
@testable import RNCryptorFormat

/// A message of RNCryptor. docs/reference/RNCRYPTOR.md.
///
///     1  bit 0: the HMAC is left out, and made; bit 1: it is taken in pieces of 1 to 16 bytes as well; FF, and zeros behind
///        the options: a password
///     …  the message
extension FuzzTarget {
    static let rncryptor = FuzzTarget(
        "rncryptor", longest: 1024, seeds: RNCryptorTarget.seeds, run: RNCryptorTarget.run)
}

private enum RNCryptorTarget {
    static func seeds() throws -> [[UInt8]] {
        try [0, 1, 16, 100].flatMap { count -> [[UInt8]] in
            let text = [UInt8](repeating: 7, count: count)
            let message = try text.withUnsafeBytes { try RNCryptor.seal($0, with: keys()) }
            return [
                [1] + message.dropLast(32), [2, 2] + message.dropFirst().dropLast(), [3, 2] + Array(message[1..<18]),
            ]
        }
    }

    private static func keys() throws -> RNCryptorSecret { try RNCryptorSecret(keys: Known.secret(64)) }

    static func run(_ bytes: [UInt8]) throws {
        var input = Input(bytes)
        let how = input.byte()
        var message = input.remainder()
        // Two derivations: too slow to be tried often.
        let isPassword = how == 0xFF && message.dropFirst(2).allSatisfy { $0 == 0 }
        let secret = isPassword ? try RNCryptorSecret(password: Known.secret(Array("é".utf8))) : try keys()
        if how.has(0), let header = try? message.lendBytes(RNCryptorHeader.init(readFrom:)), header.kind == secret.kind
        {
            let keys = isPassword && header.version == 2 ? try secret.cutKeys(for: header) : nil
            var mac =
                if let keys { try keys.mac(after: header) } else { try secret.keys(for: header).mac(after: header) }
            try message.withUnsafeBytes { try mac.update(UnsafeRawBufferPointer(rebasing: $0[header.length...])) }
            message += try mac.valueSoFar()
        }
        let opened = result(message, secret)
        if how.has(1), !isPassword {
            try hold(verified(message, secret) == isVerified(opened), "pieces change the verdict")
        }
        guard case .success(let text) = opened else { return }
        try hold(text.count < message.count, "more text than message")
        let header = try message.lendBytes(RNCryptorHeader.init(readFrom:))
        guard header.version == 3 else { return }
        let again = try text.withUnsafeBytes { try RNCryptor.seal($0, RNCryptorSealer(secret, header)) }
        try hold(again == message, "a message is written in another way")
    }

    private static func result(
        _ message: [UInt8], _ secret: borrowing RNCryptorSecret
    ) -> Result<[UInt8], RNCryptorError> {
        do throws(RNCryptorError) {
            return .success(
                try message.lendBytes { message throws(RNCryptorError) in try RNCryptor.open(message, with: secret) })
        } catch {
            return .failure(error)
        }
    }

    private static func isVerified(_ result: Result<[UInt8], RNCryptorError>) -> Bool {
        switch result {
        case .success, .failure(.malformed): true
        case .failure: false
        }
    }

    private static func verified(_ message: [UInt8], _ secret: borrowing RNCryptorSecret) -> Bool {
        message.withUnsafeBytes { message in
            do throws(RNCryptorError) {
                let header = try RNCryptorHeader(readFrom: message)
                var verifier = try RNCryptorVerifier(header, with: secret)
                var (rest, size) = (message[header.length...], 1)
                while !rest.isEmpty {
                    try verifier.update(UnsafeRawBufferPointer(rebasing: rest.prefix(size)))
                    (rest, size) = (rest.dropFirst(size), size % 16 + 1)
                }
                _ = try verifier.finish()
                return true
            } catch {
                return false
            }
        }
    }
}
