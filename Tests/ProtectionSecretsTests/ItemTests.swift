import Foundation
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// Adding, reading, changing, deleting; names and groups.
@Suite struct ItemTests {
    private let bed: SecretsBed
    private var store: SecretStore { bed.store }
    init() throws { bed = try SecretsBed() }

    private static let names: [SecretName] = [
        .genericPassword(service: "imap", account: "kim"), .genericPassword(service: "", account: "kim"),
        .internetPassword(
            SecretServer("HTTPS", host: "Example.ORG", port: 8443, path: "/a", realm: "r"), account: "kim"),
        .internetPassword(SecretServer("https", host: "example.org"), account: ""),
    ]

    @Test("An error says what is wrong to an application too")
    func words() throws {
        let name = Self.names[0]
        let missing = #expect(throws: SecretError.self) { try store.delete(name) }
        let group = store.privateGroup
        #expect(missing?.localizedDescription == "there is no secret 'imap' 'kim' in group \(group)")
        let keybag = SecretError.protection(.because(KeybagFailure.keybagNotFound("/k")))
        #expect(keybag.localizedDescription.contains("/k"))
        #expect(keybag.recoverySuggestion?.contains("protectfs init") == true)
    }

    @Test(arguments: names) func lifeOfAnItem(_ name: SecretName) throws {
        #expect(try store.record(of: name) == nil)
        let added = try store.add(name, value: secret("one"))
        #expect(added.accessibility == .whenUnlocked && added.group == store.privateGroup)
        #expect(try store.text(name) == "one")
        let other = try bed.another()
        #expect(try other.text(name) == "one")
        let updated = try other.update(name, value: secret("two"), accessibility: .afterFirstUnlock)
        #expect(updated.id == added.id && updated.created == added.created)
        #expect(try store.record(of: name) == updated)
        #expect(try store.text(name) == "two")
        try store.delete(name)
        #expect(throws: SecretError.self) { try other.text(name) }
    }

    @Test func deletedIfItIsStillThat() throws {
        let name = SecretName.account("kim")
        #expect(try !store.delete(name, ifValueIs: secret("one")), "there is none")
        try store.add(name, value: secret("two"))
        for other in ["one", "", "two "] { #expect(try !store.delete(name, ifValueIs: secret(other))) }
        #expect(try store.text(name) == "two")
        #expect(try store.delete(name, ifValueIs: secret("two")))
        #expect(try store.record(of: name) == nil)
        try store.add(name, value: secret("two"))
        try bed.enter(.locked)
        #expect(throws: SecretError.self) { try store.delete(name, ifValueIs: secret("two")) }
        #expect(try store.record(of: name) != nil)
    }

    @Test func whatIsThereAndWhatIsNot() throws {
        let name = SecretName.account("kim")
        func failure(_ body: () throws -> Void) -> String {
            do { try body() } catch { return "\(error)".split(separator: "(").first.map(String.init) ?? "" }
            return "none"
        }
        #expect(failure { try store.update(name, value: secret("a")) } == "notFound")
        #expect(failure { try store.delete(name) } == "notFound")
        #expect(failure { _ = try store.value(of: name) } == "notFound")
        #expect(failure { try store.setAccessibility(.afterFirstUnlock, of: name) } == "notFound")
        #expect(failure { try store.set(name, value: secret("a")) } == "none")
        #expect(failure { try store.add(name, value: secret("b")) } == "exists")
        #expect(try store.text(name) == "a")
        #expect(failure { try store.set(name, value: secret("c")) } == "none")
        #expect(try store.text(name) == "c")
    }

    @Test(arguments: [0, 1, 15, 16, 17, 4096, 65_536]) func values(_ count: Int) throws {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        try store.add(.account("kim"), value: secret(bytes))
        #expect(try store.value(of: .account("kim")).withUnsafeBytes { Array($0) } == bytes)
    }

    @Test func refusedInput() throws {
        #expect(throws: SecretError.self) {
            try store.add(.account("kim"), value: SecretBytes(zeroed: SecretStore.maximumValueLength + 1))
        }
        let refused: [SecretName] = [
            .genericPassword(service: "", account: ""), .account("a\0b"),
            .account(String(repeating: "a", count: SecretName.maximumLength + 1)), .identity(name: ""),
            .internetPassword(SecretServer("https", host: ""), account: "a"),
            .internetPassword(SecretServer("", host: "a"), account: "a"),
            .internetPassword(SecretServer("https", host: "a", port: 65_536), account: "a"),
            .internetPassword(SecretServer("https", host: "a", port: -1), account: "a"),
        ]
        for name in refused {
            #expect(throws: SecretError.self) { try store.add(name, value: secret("a")) }
            #expect(throws: SecretError.self) { try store.set(name, value: secret("a")) }
        }
        #expect(try store.find(in: .allGroups).records.isEmpty)
    }

    @Test func accessibilityAlone() throws {
        try store.add(.account("kim"), value: secret("a"))
        try store.setAccessibility(.afterFirstUnlockThisDeviceOnly, of: .account("kim"))
        try store.update(.account("kim"), value: secret("b"))
        #expect(try store.record(of: .account("kim"))?.accessibility == .afterFirstUnlockThisDeviceOnly)
        #expect(try store.text(.account("kim")) == "b")
    }

    @Test func identities() throws {
        let der: [UInt8] = [0x30, 0x82, 0x01, 0x00] + [UInt8](repeating: 7, count: 256)
        let identity = try SecretIdentity(pkcs12: secret(der), passphrase: secret("phrase"))
        try store.add(identity, name: "client")
        let read = try store.identity("client")
        #expect(read.pkcs12.withUnsafeBytes { Array($0) } == der)
        #expect(read.passphrase.withUnsafeBytes { Array($0) } == Array("phrase".utf8))
        for wrong in [[], [0x30], [0x31, 0], [0x30, 1], [0x30, 0x80], Array(der.dropLast()), der + [0]] as [[UInt8]] {
            #expect(throws: SecretError.self) {
                _ = try SecretIdentity(pkcs12: secret(wrong), passphrase: secret(""))
            }
        }
        // A value that is none was not made by us.
        try store.set(.identity(name: "client"), value: secret([9, 0, 0, 0, 1]))
        #expect(throws: SecretError.self) { _ = try store.identity("client") }
    }

    @Test func searching() throws {
        for name in Self.names { try store.add(name, value: secret("a"), accessibility: .afterFirstUnlock) }
        try store.add(.account("lee"), value: secret("a"))
        func find(_ change: (inout SecretQuery) -> Void) throws -> [SecretName] {
            var query = SecretQuery()
            change(&query)
            return try store.find(query).records.map(\.name)
        }
        #expect(try find { _ in }.count == 5)
        #expect(try Set(find { $0.account = "kim" }) == Set(Self.names[0...2]))
        #expect(try find { $0.service = "imap" } == [Self.names[0]])
        #expect(try find { ($0.kind, $0.host) = (.internetPassword, "EXAMPLE.org") }.count == 2)
        #expect(try find { ($0.protocol, $0.port, $0.path, $0.realm) = ("https", 8443, "/a", "r") } == [Self.names[2]])
        #expect(try find { $0.accessibility = .whenUnlocked } == [.account("lee")])
        #expect(try find { $0.name = "client" } == [])
    }

    /// No group: the private one, for adding and for looking; never the first that has something.
    @Test func groups() throws {
        let shared = try AccessGroup("org.example.test.org.example.accounts")
        let other = try bed.another("org.example.other")
        let name = SecretName.account("kim")
        try other.add(name, value: secret("of other"))
        try store.add(name, value: secret("shared"), in: shared)
        #expect(throws: SecretError.self) { try store.text(name) }
        #expect(try store.find().records.isEmpty)
        try store.add(name, value: secret("own"))
        #expect(try store.text(name) == "own")
        #expect(try other.text(name) == "of other")
        #expect(try other.text(name, in: shared) == "shared")
        #expect(try store.find(in: .group(shared)).records.map(\.group) == [shared])
        #expect(
            try store.find(in: .allGroups).records.map(\.group) == [other.privateGroup, store.privateGroup, shared])
        try store.delete(name, in: shared)
        #expect(try store.text(name) == "own")
        for wrong in ["", ".", "a..b", "a b.c.d.e", "org.example.test", "ä.b.c.d", String(repeating: "a.", count: 200)]
        {
            #expect(throws: SecretError.self) { try AccessGroup(wrong) }
        }
        for wrong in ["", "a.", "a/b", "../x"] {
            #expect(throws: SecretError.self) { try SecretStore(appID: wrong, keybag: bed.keybag) }
        }
    }

    @Test func othersAreTold() async throws {
        let other = try bed.another()
        let changes = store.changes()
        var iterator = changes.makeAsyncIterator()
        try other.add(.account("kim"), value: secret("a"))
        await iterator.next()
        #expect(try store.text(.account("kim")) == "a")
    }
}
