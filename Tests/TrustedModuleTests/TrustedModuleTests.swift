import CTSSLayout
import Foundation
import ProtectionKeys
import TestTPM
import Testing

@testable import TrustedModule

/// Against swtpm(8): the protocol of a TPM, not its protection.
@Suite(
    "The TPM", .serialized,
    .enabled(if: EmulatedTPM.whyNot == nil, "swtpm or tpm2-tools is missing: \(EmulatedTPM.whyNot ?? "")"))
struct TrustedModuleTests {
    private let emulator: EmulatedTPM
    private var module: TrustedModule { TrustedModule(place: .emulator(port: emulator.port)) }
    private static let label = [UInt8](repeating: 7, count: 32)

    init() throws { emulator = try EmulatedTPM() }

    private func value(_ byte: UInt8) -> SecretBytes { SecretBytes(copyOf: [UInt8](repeating: byte, count: 32)) }

    private func bytes(_ secret: borrowing SecretBytes) -> [UInt8] { secret.withUnsafeBytes { Array($0) } }

    private func define(_ label: [UInt8] = label, secret: UInt8 = 1) throws -> TrustedModule.Index {
        try module.define(module.unusedHandle(), label: label, secret: value(secret), authorization: value(2))
    }

    private func read(
        _ index: TrustedModule.Index, _ authorization: UInt8 = 2, from other: TrustedModule? = nil
    ) throws -> [UInt8] {
        bytes(try (other ?? module).secret(of: index, authorization: value(authorization)))
    }

    @Test("It gives a secret to the right value only, and nothing once the secret was destroyed")
    func life() throws {
        let index = try define()
        #expect(TrustedModule.handles.contains(index.handle))
        #expect(try emulator.indices() == [index.handle])
        #expect(try module.usedHandles() == [index.handle])
        #expect(try read(index) == [UInt8](repeating: 1, count: 32))
        #expect(throws: TrustedModuleError.wrongAuthorization) { try read(index, 3) }
        #expect(try read(index) == [UInt8](repeating: 1, count: 32))
        #expect(try module.label(at: index.handle) == Self.label)
        #expect(try !module.undefine(index.handle, label: [UInt8](repeating: 8, count: 32)), "somebody else's")
        #expect(try read(index).count == 32)
        #expect(try module.undefine(index.handle, label: Self.label))
        #expect(try !module.undefine(index.handle, label: Self.label))
        #expect(throws: TrustedModuleError.indexMissing) { try read(index) }
        #expect(try emulator.indices() == [])
        #expect(try module.label(at: index.handle) == nil)
    }

    @Test("A secret outlives a restart of the machine, and a value may hold any bytes")
    func restart() throws {
        let index = try define()
        try emulator.restart()
        #expect(try read(index).count == 32)
        for last in [1, 255] as [UInt8] {
            var value = [UInt8](repeating: 0, count: 32)
            value[31] = last
            let label = [UInt8](repeating: last, count: 32)
            let index = try module.define(
                module.unusedHandle(), label: label, secret: SecretBytes(zeroed: 32),
                authorization: SecretBytes(copyOf: value))
            let read = bytes(try module.secret(of: index, authorization: SecretBytes(copyOf: value)))
            #expect(read == [UInt8](repeating: 0, count: 32))
            try module.undefine(index.handle, label: label)
        }
    }

    @Test("After three wrong values it refuses the right one too, and accepts it again after a while")
    func lockout() throws {
        try emulator.limit(tries: 3, seconds: 2)
        let index = try define()
        #expect(try module.moduleFacts().triesLeft == 3)
        for left in [2, 1, 0] as [UInt32] {
            #expect(throws: TrustedModuleError.wrongAuthorization) { try read(index, 9) }
            #expect(try module.moduleFacts().triesLeft == left)
        }
        #expect(try module.moduleFacts().isLockedOut)
        #expect(throws: TrustedModuleError.lockedOut) { try read(index) }
        #expect(throws: TrustedModuleError.lockedOut) { try read(index, 9) }
        var again: [UInt8]?
        for _ in 0..<100 where again == nil {
            usleep(100_000)
            again = try? read(index)
        }
        #expect(again == [UInt8](repeating: 1, count: 32))
    }

    @Test("Its facts can be read without a value: the maker, the tries, and the presence of passwords")
    func facts() throws {
        try emulator.limit(tries: 31, seconds: 600)
        let facts = try module.moduleFacts()
        #expect(facts.manufacturer == "IBM" && facts.isVirtual)
        #expect((facts.maximumTries, facts.secondsForOneTry) == (31, 600))
        #expect(!facts.isLockedOut && !facts.ownerHasPassword && !facts.lockoutHasPassword)
        try emulator.run("changeauth", "-c", "lockout", "code")
        #expect(try module.moduleFacts().lockoutHasPassword)
        let index = try define()
        #expect(try read(index).count == 32, "a password of the lockout hierarchy is not needed here")
        try emulator.run("changeauth", "-c", "owner", "word")
        #expect(try module.moduleFacts().ownerHasPassword)
        #expect(throws: TrustedModuleError.ownerHasPassword) { try define([UInt8](repeating: 9, count: 32)) }
        #expect(throws: TrustedModuleError.ownerHasPassword) { try module.undefine(index.handle, label: Self.label) }
    }

    @Test("Another TPM, a cleared one and an index that somebody defined anew get no value, and no try is spent")
    func others() throws {
        let index = try define()
        let other = try EmulatedTPM()
        let elsewhere = TrustedModule(place: .emulator(port: other.port))
        #expect(throws: TrustedModuleError.otherModule) { try read(index, from: elsewhere) }
        #expect(try elsewhere.moduleFacts().failedTries == 0)

        try emulator.run("nvundefine", "0x\(String(index.handle, radix: 16))")
        #expect(throws: TrustedModuleError.indexMissing) { try read(index) }
        _ = try module.define(
            index.handle, label: [UInt8](repeating: 6, count: 32), secret: value(5), authorization: value(2))
        #expect(throws: TrustedModuleError.indexDiffers) { try read(index) }

        try emulator.run("clear")
        #expect(throws: TrustedModuleError.otherModule) { try read(index) }
        #expect(try module.moduleFacts().failedTries == 0)
    }

    @Test("Where its memory is full the error says so, and nothing is left of the index that had no room")
    func room() throws {
        #expect(try emulator.fill().isEmpty == false)
        #expect(throws: TrustedModuleError.noRoom) { try define() }
        #expect(try emulator.indices() == [])
    }

    @Test("All indices are found, however many there are")
    func many() throws {
        var labels: Set<[UInt8]> = []
        for number in 0..<5 as Range<UInt8> {
            let label = [UInt8](repeating: number, count: 32)
            _ = try define(label)
            labels.insert(label)
        }
        #expect(try Set(module.labels()) == labels)
        #expect(try Set(module.usedHandles()) == Set(emulator.indices()))
    }

    @Test("A storage root key of the distribution, on an elliptic curve or RSA, is used where it is")
    func persistentRoot() throws {
        for algorithm in ["ecc", "rsa"] {
            let other = try EmulatedTPM()
            let context = "/tmp/protectfs-test-\(other.port).context"
            defer { unlink(context) }
            try other.run("createprimary", "-C", "o", "-G", algorithm, "-c", context)
            try other.run("evictcontrol", "-C", "o", "-c", context, "0x81000001")
            try other.flush()
            let module = TrustedModule(place: .emulator(port: other.port))
            let index = try module.define(
                module.unusedHandle(), label: Self.label, secret: value(1), authorization: value(2))
            #expect(try bytes(module.secret(of: index, authorization: value(2))) == [UInt8](repeating: 1, count: 32))
            // With a password of the owner no key can be made, and this one is there.
            try other.run("changeauth", "-c", "owner", "word")
            #expect(try bytes(module.secret(of: index, authorization: value(2))).count == 32)
        }
    }

    /// A TPM with a storage root key at its place, and a password of the owner.
    private func owned(by password: String) throws -> EmulatedTPM {
        let context = "/tmp/protectfs-test-\(emulator.port).context"
        defer { unlink(context) }
        try emulator.run("createprimary", "-C", "o", "-G", "ecc", "-c", context)
        try emulator.run("evictcontrol", "-C", "o", "-c", context, "0x81000001")
        try emulator.flush()
        try emulator.run("changeauth", "-c", "owner", password)
        return emulator
    }

    private func password(_ text: String) -> SecretBytes { SecretBytes(copyOf: Array(text.utf8)) }

    @Test("With the owner's password secrets are kept and destroyed, and the password does not travel over the bus")
    func ownerPassword() throws {
        let word = "a password that the owner chose."
        let tap = try BusTap(to: owned(by: word))
        let module = TrustedModule(place: .emulator(port: tap.port))
        #expect(try module.wantsOwnerPassword(root: nil))
        #expect(try !module.take(ownerPassword: password("another one"), root: nil))
        #expect(try !module.take(ownerPassword: password(String(repeating: "w", count: 65)), root: nil))
        #expect(try !module.take(ownerPassword: password(""), root: nil) && !module.knowsOwner)
        #expect(throws: TrustedModuleError.ownerHasPassword) {
            try module.define(0x018D_0001, label: Self.label, secret: value(1), authorization: value(2))
        }
        #expect(try module.take(ownerPassword: password(word), root: nil))
        #expect(try !module.wantsOwnerPassword(root: nil) && emulator.indices() == [])
        let index = try module.define(0x018D_0001, label: Self.label, secret: value(1), authorization: value(2))
        #expect(try bytes(module.secret(of: index, authorization: value(2))) == [UInt8](repeating: 1, count: 32))
        let stranger = TrustedModule(place: .emulator(port: tap.port))
        #expect(throws: TrustedModuleError.ownerHasPassword) { try stranger.undefine(index.handle, label: Self.label) }
        #expect(try read(index, from: stranger).count == 32, "reading takes no password of the owner")
        #expect(try module.undefine(index.handle, label: Self.label, root: index.root))
        #expect(try emulator.indices() == [])
        #expect(Data(tap.bytes).range(of: Data(word.utf8)) == nil)

        let control = try BusTap(to: emulator)
        _ = try EmulatedTPM.run("changeauth", ["-c", "owner", "-p", word, word], port: control.port)
        #expect(Data(control.bytes).range(of: Data(word.utf8)) != nil, "whoever sets it sends it in the clear")
    }

    @Test("The owner's password is tried on no other storage root key than that of the keybag")
    func ownerOfAnotherRoot() throws {
        let module = TrustedModule(place: .emulator(port: try owned(by: "word").port))
        let other = [UInt8](repeating: 9, count: 32)
        #expect(try !module.wantsOwnerPassword(root: other))
        #expect(throws: TrustedModuleError.ownerHasPassword) {
            try module.take(ownerPassword: password("word"), root: other)
        }
        #expect(try module.take(ownerPassword: password("word"), root: nil))
        #expect(throws: TrustedModuleError.ownerHasPassword, "to make a key it would go in the clear") {
            try module.define(0x018D_0001, label: Self.label, secret: value(1), authorization: value(2), root: other)
        }
    }

    @Test("Without a storage root key at its place, or with one that somebody imported, no password is asked for")
    func ownerWithoutRoot() throws {
        try emulator.run("changeauth", "-c", "owner", "word")
        #expect(try !module.wantsOwnerPassword(root: nil))
        #expect(throws: TrustedModuleError.ownerHasPassword) {
            try module.take(ownerPassword: password("word"), root: nil)
        }
        let context = "/tmp/protectfs-test-\(emulator.port).context"
        defer { unlink(context) }
        let attributes = "sensitivedataorigin|userwithauth|restricted|decrypt"  // not fixedtpm
        try emulator.run("createprimary", "-C", "o", "-P", "word", "-G", "ecc", "-a", attributes, "-c", context)
        try emulator.run("evictcontrol", "-C", "o", "-P", "word", "-c", context, "0x81000001")
        try emulator.flush()
        #expect(try !module.wantsOwnerPassword(root: nil))
    }

    @Test("A secret from before the owner had a password opens again when its storage root key is where it belongs")
    func rootOfBefore() throws {
        let index = try define()
        try emulator.run("changeauth", "-c", "owner", "word")
        #expect(throws: TrustedModuleError.ownerHasPassword) { try read(index) }
        let context = "/tmp/protectfs-test-\(emulator.port).context"
        defer { unlink(context) }
        // As docs/guide/TPM.md says.
        let attributes = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|decrypt"
        try emulator.run(
            "createprimary", "-C", "o", "-P", "word", "-G", "ecc256:aes128cfb", "-a", attributes, "-c", context)
        try emulator.run("evictcontrol", "-C", "o", "-P", "word", "-c", context, "0x81000001")
        try emulator.flush()
        #expect(try read(index).count == 32)
        #expect(try module.wantsOwnerPassword(root: index.root))
    }

    @Test("A listener on the bus gets neither value nor secret, but gets both from a program without encryption")
    func bus() throws {
        let value = Array("an authorization value 32 bytes.".utf8)
        let secret = Array("a secret that has 32 bytes, yes.".utf8)
        func isThere(_ text: [UInt8], in bytes: [UInt8]) -> Bool { Data(bytes).range(of: Data(text)) != nil }
        let tap = try BusTap(to: emulator)
        let module = TrustedModule(place: .emulator(port: tap.port))
        let index = try module.define(
            module.unusedHandle(), label: Self.label, secret: SecretBytes(copyOf: secret),
            authorization: SecretBytes(copyOf: value))
        #expect(try bytes(module.secret(of: index, authorization: SecretBytes(copyOf: value))) == secret)
        try module.undefine(index.handle, label: Self.label)
        #expect(isThere(Self.label, in: tap.bytes), "it listens")
        #expect(!isThere(value, in: tap.bytes) && !isThere(secret, in: tap.bytes))

        let control = try BusTap(to: emulator)
        let file = "/tmp/protectfs-test-\(control.port).secret"
        try Data(secret).write(to: URL(fileURLWithPath: file))
        defer { unlink(file) }
        let password = String(decoding: value, as: UTF8.self)
        for (command, words) in [
            ("nvdefine", ["0x018DFFFF", "-s", "32", "-a", "authread|authwrite", "-p", password]),
            ("nvwrite", ["0x018DFFFF", "-P", password, "-i", file]),
        ] { _ = try EmulatedTPM.run(command, words, port: control.port) }
        #expect(isThere(value, in: control.bytes) && isThere(secret, in: control.bytes))
    }

    @Test("After use, memory has no copy of the secret, and at most one of the value")
    func residue() throws {
        let secret = try SecretBytes(randomByteCount: 32)
        let authorization = try SecretBytes(randomByteCount: 32)
        let index = try module.define(
            module.unusedHandle(), label: Self.label, secret: secret, authorization: authorization)
        // Each process reads once, and ends.
        let isSame = try module.secret(of: index, authorization: authorization).withUnsafeBytes { read in
            secret.withUnsafeBytes { read.elementsEqual($0) }
        }
        #expect(isSame)
        let control = (0..<64).map { UInt8(truncatingIfNeeded: $0 * 37 + 11) }
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 16)
        defer { copy.deallocate() }
        copy.copyBytes(from: control)
        #expect(try control.withUnsafeBytes { try MemoryCopies.count(of: $0) } > 0, "the search finds what is there")
        #expect(try secret.withUnsafeBytes { try MemoryCopies.count(of: $0) } == 0)
        #expect(try authorization.withUnsafeBytes { try MemoryCopies.count(of: $0) } <= 2, "of two connections")
    }

    @Test("Without a TPM the error says so")
    func missing() throws {
        #expect(ModulePlace.device.name == "device:/dev/tpmrm0")
        #expect(ModulePlace.emulator(port: 1).name == "swtpm:host=127.0.0.1,port=1")
        guard access("/dev/tpmrm0", F_OK) != 0 else { return }
        #expect(throws: TrustedModuleError.deviceMissing(path: "/dev/tpmrm0")) {
            try TrustedModule(place: .device).moduleFacts()
        }
    }

    @Test("Codes of the library have the meaning of the specification")
    func codes() {
        let meanings: [(UInt32, TrustedModuleError)] = [
            (0x98E, .wrongAuthorization), (0xB_098E, .wrongAuthorization), (0x921, .lockedOut), (0x14B, .noRoom),
            (0x18B, .indexMissing), (0x9A2, .ownerHasPassword), (0x3CB, .failed(command: "X", code: 0x3CB)),
            (0x7_0921, .failed(command: "X", code: 0x7_0921)), (0xA_000A, .failed(command: "X", code: 0xA_000A)),
        ]
        for (code, meaning) in meanings { #expect(TrustedModuleError("X", code) == meaning) }
    }

    @Test(
        "The declarations have the layout of the library's own headers",
        .enabled(if: protectfs_tss_layout_is_checked == 1, "libtss2-dev was not here when this was built"))
    func layout() {}
}
