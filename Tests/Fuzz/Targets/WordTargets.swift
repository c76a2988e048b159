import FoundationEssentials
import ProtectionKeys

@testable import DataProtection
@testable import PasswordHash
@testable import TrustedHTTP

extension FuzzTarget {
    /// Password hashes, verifiers and parameters of client keys as a database holds them. docs/guide/PASSWORDS.md.
    static let passwords = FuzzTarget("passwords", longest: 256) { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        do throws(PasswordError) {
            let hash = try PasswordHash(encoded: text)
            try same(hash.encoded, text)
        } catch { try malformed(error) }
        do throws(PasswordError) {
            let verifier = try StoredVerifier(encoded: text)
            try same(verifier.encoded, text)
        } catch { try malformed(error) }
        do throws(PasswordError) {
            let parameters = try ClientKeyParameters(encoded: text)
            try same(parameters.encoded, text)
        } catch { try malformed(error) }
    }

    /// Short texts that people or programs give: base 64, hexadecimal, recovery codes, times, host names, pins.
    static let words = FuzzTarget("words", longest: 256) { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        if let decoded = Base64.decode(text) { try hold(Base64.encode(decoded) == text, "base 64") }
        if let decoded = Base64.decodeUnpadded(text) { try hold(Base64.encodeUnpadded(decoded) == text, "base 64") }
        try hold(Base64.decode(Base64.encode(bytes)) == bytes, "base 64 of any bytes")
        try hold(bytes.isEmpty || Hexadecimal.bytes(Hexadecimal.text(bytes)) == bytes, "hexadecimal of any bytes")
        if let decoded = Hexadecimal.bytes(text) {
            try hold(Hexadecimal.text(decoded) == text.lowercased().filter { $0 != ":" }, "hexadecimal")
        }
        try recoveryCode(bytes)
        if let seconds = TimeSpan.seconds(text) { try hold(TimeSpan.seconds("\(seconds)s") == seconds, "a time") }
        if case .name(let name)? = HostName(text) { try hold(HostName(name) == .name(name), "the host \(name)") }
        do throws(TrustError) {
            let pin = try CertificatePin(.publicKey, text)
            guard pin.sha256.count == 32 else { throw .malformedPin("length") }
        } catch {
            switch error {
            case .malformedPin(let found), .pinLength(_, let found): try hold(found == text, "a pin: \(error)")
            default: throw Broken(description: "\(error)")
            }
        }
    }

    private static func recoveryCode(_ bytes: [UInt8]) throws {
        let typed = Known.secret(bytes)
        do throws(RecoveryCodeTypo) {
            let code = try RecoveryCode(reading: typed)
            let shown = code.grouped()
            let again = try RecoveryCode(reading: shown)
            let isSame = again.grouped().withUnsafeBytes { again in shown.withUnsafeBytes { again.elementsEqual($0) } }
            guard isSame, code.isGroup(1, typedAs: shown.slice(0..<4)) else { throw .length(-1) }
        } catch {
            switch error {
            case .length(let length): try hold(length != 32 && length >= 0, "a recovery code reads as another one")
            case .character(let group): try hold((1...8).contains(group), "group \(group)")
            case .checksum(let group): try hold((1...8).contains(group ?? 1), "group \(group ?? 0)")
            }
        }
    }

    private static func same(_ encoded: String, _ text: String) throws(PasswordError) {
        // By bytes: text compares equal to what only looks like it.
        guard encoded.utf8.elementsEqual(text.utf8) else { throw .wrongKeyLength(expected: 0, actual: 0) }
    }

    private static func malformed(_ error: PasswordError) throws {
        guard case .malformed = error else { throw Broken(description: "written in another way: \(error)") }
    }
}
