import Foundation
import ProtectionKeys
import TestEffort
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// Secrets as text.
@Suite struct PortableTests {
    @Test(arguments: 0..<70) func base64IsFoundations(_ count: Int) throws {
        let bytes = (0..<count).map { _ in UInt8.random(in: 0...255) }
        let text = SecretBase64.encode(secret(bytes)).withUnsafeBytes { Array($0) }
        #expect(text == Array(Data(bytes).base64EncodedString().utf8))
        #expect(decoded(text) == bytes)
    }

    private func decoded(_ text: [UInt8]) -> [UInt8]? {
        guard let value = SecretBase64.decode(secret(text)) else { return nil }
        return value.withUnsafeBytes { Array($0) }
    }

    @Test func everyLetter() throws {
        for letter in UInt8.min...UInt8.max {
            let text = Array("AAA".utf8) + [letter]
            let decoded = decoded(text)
            #expect(decoded == Data(base64Encoded: Data(text)).map { Array($0) }, "\(letter)")
        }
        for wrong in ["A", "AA", "AAA", "A===", "AB==", "AAB=", "AA=A", "=AAA", "AA==AAAA", "AAA=\n", "AAAA\n"] {
            #expect(decoded(Array(wrong.utf8)) == nil, "\(wrong)")
        }
    }

    private func export(_ store: SecretStore, _ scope: SecretScope = .allGroups) throws -> [UInt8] {
        var text: [UInt8] = []
        _ = try store.export(scope) { text += $0 }
        return text
    }

    private func take(_ text: [UInt8], into store: SecretStore, replacing: Bool = false, piece: Int = 7) throws -> Int {
        var rest = text[...]
        return try store.importSecrets(replacing: replacing) { buffer in
            let part = rest.prefix(min(piece, buffer.count))
            rest = rest.dropFirst(part.count)
            buffer.copyBytes(from: part)
            return part.count
        }
    }

    @Test("A secret that an import replaces is as strict as it was, even if somebody has altered that")
    func isAsStrictAsBoth() throws {
        let bed = try SecretsBed()
        let name = SecretName.account("kim")
        try bed.store.add(name, value: secret("old"), accessibility: .afterFirstUnlock)
        let text = try export(bed.store)
        try bed.store.set(name, value: secret("new"), accessibility: .whenUnlockedThisDeviceOnly)
        try bed.store.write { try $0.execute(sql: "UPDATE secrets SET accessibility = 3") }
        #expect(try take(text, into: bed.store, replacing: true) == 1)
        #expect(try bed.store.record(of: name)?.accessibility == .whenUnlockedThisDeviceOnly)
        #expect(try bed.store.text(name) == "old")
    }

    @Test func thereAndBack() throws {
        let (bed, other) = (try SecretsBed(), try SecretsBed())
        let group = try AccessGroup("a.b.c.d")
        try bed.store.add(.account("kim"), value: secret((0..<1000).map { UInt8(truncatingIfNeeded: $0) }))
        try bed.store.add(.account("empty"), value: secret(""), accessibility: .afterFirstUnlock, in: group)
        try bed.store.add(.account("here"), value: secret("x"), accessibility: .whenUnlockedThisDeviceOnly)
        try bed.store.add(
            .internetPassword(SecretServer("imap", host: "e.org", port: 1, path: "/\"\\\n", realm: "ä"), account: "k"),
            value: SecretBytes(zeroed: SecretStore.maximumValueLength))
        let text = try export(bed.store)
        for piece in [1, 4096, 1 << 20] {
            #expect(try take(text, into: other.store, replacing: true, piece: piece) == 3)
            #expect(try export(other.store) == text)
        }
        #expect(try other.store.find(in: .allGroups).records.count == 3)
        // One that is there: nothing at all is taken.
        try other.store.delete(.account("kim"))
        #expect(throws: SecretError.self) { try take(text, into: other.store) }
        #expect(try other.store.find(in: .allGroups).records.count == 2)
    }

    /// Whatever a file says that was altered or cut short: an error, and nothing of it.
    @Test func garbage() throws {
        let (bed, other) = (try SecretsBed(), try SecretsBed())
        for number in 0..<3 { try bed.store.add(.account("\(number)"), value: secret("value \(number)")) }
        let text = try export(bed.store)
        for length in 0..<text.count - 1 {
            #expect(throws: SecretError.self, "\(length)") {
                try take(Array(text[..<length]), into: other.store, piece: 999)
            }
        }
        var generator = Effort.generator("altered exports of secrets")
        for _ in 0..<Effort.count(300, 30_000) {
            var altered = text
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                altered[Int.random(in: 0..<altered.count, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            _ = try? take(altered, into: other.store, replacing: true, piece: 999)
        }
        let long = Array("protectfs secrets 1\n".utf8) + [UInt8](repeating: UInt8(ascii: "A"), count: 400_000)
        #expect(throws: SecretError.self) { try take(long, into: other.store, piece: 1 << 20) }
        try other.keybag.lock()
        #expect(throws: SecretError.self) { try take(text, into: other.store, replacing: true) }
    }
}
