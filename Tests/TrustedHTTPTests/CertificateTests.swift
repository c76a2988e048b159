import Foundation
import ProtectionKeys
import TestCertificates
import TestEffort
import Testing

@testable import TrustedHTTP

@Suite("Certificates and pins, as they are read")
struct CertificateTests {
    @Test("The facts in a certificate are read")
    func facts() throws {
        let (server, root) = (try Certificate.named("server"), try Certificate.named("root"))
        #expect(server.subject == "CN=server" && server.issuer == "CN=intermediate" && !server.isSelfSigned)
        #expect(server.hostNames == ["localhost"] && server.addresses == ["127.0.0.1", "::1"])
        let (first, last) = (1_577_836_800.0, 4_733_510_400.0)  // 2020-01-01, 2120-01-01
        #expect(server.validity == Date(timeIntervalSince1970: first)...Date(timeIntervalSince1970: last))
        #expect(root.isSelfSigned && root.hostNames == [])
        #expect(try Certificate.named("renewed").publicKeySHA256 == server.publicKeySHA256)
        #expect(try Certificate.named("renewed").sha256 != server.sha256)
    }

    @Test("Digests are those that openssl prints, and that docs/guide/SERVER-TRUST.md says how to make")
    func digests() throws {
        for name in ["server", "rsa"] {
            let certificate = try Certificate.named(name)
            let directory = try RootDirectory()
            try directory.write(name)
            // As in the document, word by word.
            let commands = try documentedCommands(on: "server.pem")
            #expect(commands.count == 2)
            let output = try shell(
                commands.joined(separator: "\n").replacingOccurrences(of: "server.pem", with: directory.file))
            let lines = output.split(separator: "\n").map(String.init)
            #expect(lines.count == 2)
            let pins = [CertificatePin.publicKey(of: certificate), .certificate(certificate)]
            #expect(lines.first.map { try? CertificatePin.publicKey($0) } == pins[0], "\(output)")
            let fingerprint = lines.last?.split(separator: "=").last.map(String.init) ?? ""
            #expect((try? CertificatePin.certificate(fingerprint)) == pins[1], "\(output)")
        }
    }

    /// The commands of docs/guide/SERVER-TRUST.md that read that file.
    private func documentedCommands(on file: String) throws -> [String] {
        let document = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("docs/guide/SERVER-TRUST.md")
        return try String(contentsOf: document, encoding: .utf8).split(separator: "\n")
            .filter { $0.hasPrefix("$ ") && $0.contains("-in \(file)") }.map { String($0.dropFirst(2)) }
    }

    private func shell(_ script: String) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-euc", script]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let printed = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: printed, as: UTF8.self)
    }

    @Test("PEM: one, several, with text between them; private keys and damaged text are refused")
    func pem() throws {
        let (root, server) = (try Certificate.named("root"), try Certificate.named("server"))
        let pem = TestCertificates.certificatePEM("root", "server")
        #expect(try Certificate.all(pem: pem) == [root, server])
        #expect(
            try Certificate.all(pem: "depth 0\n" + pem.replacingOccurrences(of: "\n", with: "\r\n")) == [root, server])
        #expect(try Certificate(pem: TestCertificates.certificatePEM("root")) == root)
        #expect(try Certificate.all(from: Array(pem.utf8)) == [root, server])
        #expect(try Certificate.all(from: root.der) == [root])
        #expect(root.pem + server.pem == pem)
        #expect(throws: TrustError.malformedCertificate(why: "2 of them, where one belongs")) {
            try Certificate(pem: pem)
        }
        for text in ["", "hello", "MIIB"] {
            #expect(throws: TrustError.noCertificate) { try Certificate.all(pem: text) }
        }
        #expect(throws: TrustError.notACertificate(label: "PRIVATE KEY")) {
            try Certificate.all(pem: pem + TestCertificates.keyPEM("root"))
        }
        for damaged in [String(pem.dropLast(30)), pem.replacingOccurrences(of: "M", with: "!")] {
            #expect(throws: TrustError.self) { try Certificate.all(pem: damaged) }
        }
    }

    @Test("One certificate has one encoding: nothing behind it, no other lengths")
    func oneEncoding() {
        let der = TestCertificates.certificate("server")
        for other in [[], der + [0], Array(der.dropLast()), der + der, [0x30, 0x83, 0] + der.dropFirst(2)] {
            #expect(throws: TrustError.self) { try Certificate(der: other) }
        }
    }

    @Test("A description is printable, whatever the certificate says")
    func printable() throws {
        let text = try Certificate.named("rude").description
        #expect(text.utf8.allSatisfy { 0x20..<0x7F ~= $0 }, "\(text)")
        #expect(text.contains("red") && text.contains("example.org"))
        #expect(Escaped("a\u{1B}[31mé").description == "a\\u{1b}[31m\\u{e9}")
        #expect(Escaped(String(repeating: "x", count: 300)).description.count == 201)
    }

    @Test("Garbage of every length, and thousands of altered certificates: an error or a verdict, never a crash")
    func garbage() throws {
        var random = Effort.generator("altered certificates")
        for length in 0..<300 {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
            #expect(throws: TrustError.self) { try Certificate(der: bytes) }
            #expect(throws: TrustError.self) { try Certificate.all(from: bytes) }
        }
        let names = ["server", "rsa", "constrained", "strange", "rude", "intermediate"]
        let originals = names.map(TestCertificates.certificate)
        let trust = try ServerTrust.root(pins: [.anyInChain(.publicKey(of: .named("server")))])
        let intermediate = try Certificate.named("intermediate")
        var verdicts = 0
        for round in 0..<Effort.count(4000, 400_000) {
            guard let altered = try? Certificate(der: alter(originals[round % originals.count], &random)) else {
                continue
            }
            let chain = PresentedChain(
                certificates: [altered, intermediate], host: "localhost", port: 443)
            let verdict = trust.verdict(chain)
            verdicts += 1
            #expect(verdict.description.utf8.count < 10_000)
            #expect(!verdict.allowsConnection || TestCertificates.certificate("server") == altered.der)
        }
        #expect(verdicts > 300)
    }

    /// Some bytes other ones, some more, some less.
    private func alter(_ der: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        var der = der
        for _ in 0...Int.random(in: 0...2, using: &random) {
            let place = Int.random(in: 0..<der.count, using: &random)
            switch Int.random(in: 0..<8, using: &random) {
            case 0: der.remove(at: place)
            case 1: der.insert(UInt8.random(in: 0...255, using: &random), at: place)
            case 2: der[place] = 0xFF
            default: der[place] ^= 1 << UInt8.random(in: 0...7, using: &random)
            }
        }
        return der
    }

    @Test("A pin is 32 bytes, in hexadecimal or base 64, and nothing else")
    func pins() throws {
        let digest = [UInt8](0..<32)
        let hexadecimal = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        let colons = stride(from: 0, to: 64, by: 2).map { hexadecimal.dropFirst($0).prefix(2) }.joined(separator: ":")
        for text in [
            hexadecimal, hexadecimal.uppercased(), colons, colons.uppercased(), base64, "sha256//" + base64,
            "sha256/" + base64,
        ] {
            #expect(try CertificatePin.publicKey(text).sha256 == digest)
            #expect(try CertificatePin.certificate(text).sha256 == digest)
        }
        #expect(try CertificatePin.publicKey(base64).description == "sha256//" + base64)
        #expect(try CertificatePin.certificate(base64).description == hexadecimal)
        #expect(try CertificatePin.certificate(base64) != .publicKey(base64))

        for (text, bytes) in [
            ("00", 1), (String(hexadecimal.dropLast(2)), 31), (hexadecimal + "00", 33), ("sha256//AAEC", 3),
        ] {
            #expect(throws: TrustError.pinLength(bytes: bytes, text)) { try CertificatePin.publicKey(text) }
        }
        let bad = [
            "", ":", "sha256//", "xyz", String(hexadecimal.dropLast()), colons + ":", "00:1", "0:00", base64 + "=",
            " " + base64,
            "sha256//" + hexadecimal + "!", "sha1//" + base64, String(base64.dropLast()),
            "\u{10}0" + hexadecimal.dropFirst(2),
            // The last four bits are not zero: another text of the same bytes.
            String(base64.dropLast(2)) + "9=",
        ]
        for text in bad { #expect(throws: TrustError.malformedPin(text)) { try CertificatePin.publicKey(text) } }
    }
}
