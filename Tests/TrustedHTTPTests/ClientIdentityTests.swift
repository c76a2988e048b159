import Foundation
import ProtectionKeys
import TestCertificates
import Testing

@testable import TrustedHTTP

@Suite("Client identities")
struct ClientIdentityTests {
    private func error(_ pkcs12: [UInt8], _ passphrase: StaticString?) -> ClientIdentityError? {
        do throws(ClientIdentityError) {
            if let passphrase {
                _ = try ClientIdentity(pkcs12: pkcs12, passphrase: SecretBytes(passphrase))
            } else {
                _ = try ClientIdentity(pkcs12: pkcs12, passphrase: nil)
            }
            return nil
        } catch {
            return error
        }
    }

    @Test("DER and base 64, with line breaks or without, are the same identity")
    func forms() throws {
        let der = TestCertificates.identity("client")
        let identity = try ClientIdentity.ofTests("client")
        #expect(try identity.certificate == .named("client") && identity.chain == [.named("intermediate")])
        for options in [
            Data.Base64EncodingOptions(), [.lineLength64Characters], [.lineLength76Characters, .endLineWithLineFeed],
        ] {
            let text = Array(Data(der).base64EncodedString(options: options).utf8) + [0x0A]
            #expect(try ClientIdentity(pkcs12: text, passphrase: SecretBytes("correct horse")) == identity)
        }
        #expect(try ClientIdentity.ofTests("other-client") != identity)
    }

    @Test("A file without a passphrase needs none")
    func noPassphrase() throws {
        let identity = try ClientIdentity(pkcs12: TestCertificates.identity("without-passphrase"), passphrase: nil)
        #expect(try identity.certificate == .named("client"))
    }

    @Test("A wrong passphrase is told from garbage")
    func wrongPassphrase() {
        let der = TestCertificates.identity("client")
        for passphrase: StaticString in ["wrong", "", "correct horse ", "correct\0horse", "correct horse\0"] {
            #expect(error(der, passphrase) == .wrongPassphrase)
        }
        #expect(error(der, nil) == .wrongPassphrase)
        for garbage in [
            [], Array("hello".utf8), Array(der.prefix(der.count / 2)), TestCertificates.certificate("client"),
        ] {
            guard case .malformed = error(garbage, "correct horse") else {
                Issue.record("\(garbage.count) bytes: \(String(describing: error(garbage, "correct horse")))")
                continue
            }
        }
    }

    @Test("A file without a key is no identity")
    func noKey() {
        #expect(error(TestCertificates.identity("certificate-only"), "correct horse") == .noPrivateKey)
    }

    @Test("Damage anywhere is refused, or hurts nothing")
    func damage() throws {
        let der = TestCertificates.identity("client")
        let identity = try ClientIdentity.ofTests("client")
        for place in stride(from: 0, to: der.count, by: 3) {
            for bit: UInt8 in [0x01, 0x40] {
                var damaged = der
                damaged[place] ^= bit
                guard error(damaged, "correct horse") == nil else { continue }
                #expect(try ClientIdentity(pkcs12: damaged, passphrase: SecretBytes("correct horse")) == identity)
            }
        }
        for length in stride(from: 0, to: der.count, by: 5) {
            #expect(error(Array(der.prefix(length)), "correct horse") != nil)
        }
    }

    @Test("A file that asks for endless work is refused before it begins")
    func tooExpensive() throws {
        // RFC 7292 §4: the file ends with MacData, and that one with the number of iterations, which is left out when it is 1.
        var der = TestCertificates.identity("client")
        let macData = try #require(
            der.indices.last {
                $0 + 2 < der.count && der[$0] == 0x30 && $0 + 2 + Int(der[$0 + 1]) == der.count && der[$0 + 2] == 0x30
            })
        let iterations: [UInt8] = [0x02, 0x04, 0x7F, 0xFF, 0xFF, 0xFF]
        der[macData + 1] += UInt8(iterations.count)
        #expect(der.starts(with: [0x30, 0x82]))
        let length = Int(der[2]) << 8 + Int(der[3]) + iterations.count
        (der[2], der[3]) = (UInt8(length >> 8), UInt8(length & 0xFF))
        #expect(error(der + iterations, "correct horse") == .tooExpensive(iterations: 0x7FFF_FFFF))
    }

    @Test("So is one whose parts ask for it, each for less than the limit")
    func tooExpensiveInside() {
        guard case .tooExpensive(let iterations)? = error(TestCertificates.identity("costly"), "correct horse") else {
            Issue.record("it was not refused")
            return
        }
        #expect(iterations >= 2 * 0x7F_FFFF)
    }
}
