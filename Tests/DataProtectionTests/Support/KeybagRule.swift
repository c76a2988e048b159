import ProtectionFormat
import ProtectionKeys
import Testing

@testable import DataProtection

/// A rule of FORMAT.md §2.1 that needs no key, and bytes that break it.
struct KeybagRule: Sendable {
    /// What is broken, to name it when an expectation fails.
    let comment: Comment
    /// `keybagDamaged` or `unsupported`.
    let answer: String
    private let breakIt: @Sendable (inout StoredKeybag) -> Void

    private init(_ name: String, _ answer: String, _ breakIt: @escaping @Sendable (inout StoredKeybag) -> Void) {
        comment = "\(name)"
        self.answer = answer
        self.breakIt = breakIt
    }

    /// A copy that breaks this rule and no other: its keyless check is right.
    func broken(in good: StoredKeybag) -> StoredKeybag {
        var copy = good
        breakIt(&copy)
        // A rule about the length itself keeps what it wrote there.
        if copy.bytes.count == good.bytes.count { copy.finishCheck() } else { copy.finish() }
        return copy
    }

    private static func damaged(_ name: String, _ breakIt: @escaping @Sendable (inout StoredKeybag) -> Void) -> Self {
        Self(name, "keybagDamaged", breakIt)
    }

    private static func unsupported(
        _ name: String, _ breakIt: @escaping @Sendable (inout StoredKeybag) -> Void
    ) -> Self {
        Self(name, "unsupported", breakIt)
    }

    typealias Field = StoredKeybag.Field

    static let all = header + slots + entries + wrapsOfEntries

    private static let header = [
        damaged("magic") { $0.bytes[Field.magic] ^= 1 },
        damaged("length one too small") { $0.set(UInt32($0.bytes.count - 1), at: Field.length) },
        damaged("length one too large") { $0.set(UInt32($0.bytes.count + 1), at: Field.length) },
        damaged("length 0") { $0.set(UInt32(0), at: Field.length) },
        damaged("sequence 2^63") { $0.set(UInt64(1) << 63, at: Field.sequence) },
        damaged("sequence 2^64 − 1") { $0.set(UInt64.max, at: Field.sequence) },
        damaged("no device path") { $0.setPath([]) },
        damaged("device path of 4,096 bytes") { $0.setPath(Array("/".utf8) + [UInt8](repeating: 0x61, count: 4095)) },
        damaged("relative device path") { $0.bytes[Field.path] = UInt8(ascii: "a") },
        damaged("NUL in the device path") { $0.bytes[Field.path + 3] = 0 },
        damaged("device path longer than the copy") { $0.set(UInt16(4095), at: Field.pathLength) },
        damaged("reserved byte 60") { $0.bytes[Field.zero] = 1 },
        damaged("reserved byte 63") { $0.bytes[Field.zero + 3] = 1 },
        damaged("one slot fewer than counted") { $0.bytes[Field.slotCount] = 2 },
        damaged("one entry fewer than counted") { $0.bytes[Field.entryCount] = 5 },
        damaged("one entry more than counted") { copy in
            copy.bytes.insert(contentsOf: [UInt8](repeating: 0, count: 200), at: copy.entry(4))
        },
        damaged("bytes between entries and MAC") { $0.bytes.insert(0, at: $0.entry(4)) },
        damaged("no entries") { copy in
            copy.bytes.removeSubrange(copy.entry(0)..<copy.entry(4))
            copy.bytes[Field.entryCount] = 0
        },
        damaged("65 entries") { copy in
            for generation in 2...62 as ClosedRange<UInt32> { copy.addRetired(.complete, generation) }
        },
        unsupported("version 0") { $0.set(UInt16(0), at: Field.version) },
        unsupported("version 2") { $0.set(UInt16(2), at: Field.version) },
        unsupported("version 65,535") { $0.set(UInt16.max, at: Field.version) },
        unsupported("feature bit 0") { $0.set(UInt16(1), at: Field.features) },
        unsupported("feature bit 15") { $0.set(UInt16(1) << 15, at: Field.features) },
    ]

    private static let slots = [
        damaged("no slot") { copy in
            copy.bytes.removeSubrange(copy.slot(0)..<copy.slot(1))
            copy.bytes[Field.slotCount] = 0
        },
        damaged("two passcode slots") { $0.repeatSlot() },
        damaged("nine slots") { copy in for _ in 0..<8 { copy.repeatSlot() } },
        damaged("reserved byte 2 of the slot") { $0.bytes[$0.slot(0) + 2] = 1 },
        damaged("reserved byte 3 of the slot") { $0.bytes[$0.slot(0) + 3] = 1 },
        damaged("0 iterations") { $0.set(UInt32(0), at: $0.slot(0) + 4) },
        damaged("999 iterations") { $0.set(UInt32(999), at: $0.slot(0) + 4) },
        damaged("100,000,001 iterations") { $0.set(UInt32(100_000_001), at: $0.slot(0) + 4) },
        damaged("2^32 − 1 iterations") { $0.set(UInt32.max, at: $0.slot(0) + 4) },
        unsupported("slot kind 0") { $0.bytes[$0.slot(0)] = 0 },
        unsupported("slot kind 3") { $0.bytes[$0.slot(0)] = 3 },
        unsupported("PRF 0") { $0.bytes[$0.slot(0) + 1] = 0 },
        unsupported("PRF 2") { $0.bytes[$0.slot(0) + 1] = 2 },
    ]

    private static let entries = [
        damaged("state 0") { $0.bytes[$0.entry(.complete) + 2] = 0 },
        damaged("state 3") { $0.bytes[$0.entry(.complete) + 2] = 3 },
        damaged("reserved byte of the entry") { $0.bytes[$0.entry(.complete) + 3] = 1 },
        damaged("generation 0") { $0.set(UInt32(0), at: $0.entry(.complete) + 4) },
        damaged("no active key of a class") { $0.bytes[$0.entry(.completeUntilFirstUserAuthentication) + 2] = 2 },
        damaged("two active keys of a class") { copy in
            let added = copy.repeatEntry(.complete)
            copy.set(UInt32(2), at: added + 4)
        },
        damaged("two keys of one generation") { $0.addRetired(.complete, 1) },
        unsupported("class 0") { $0.bytes[$0.entry(.complete) + 1] = 0 },
        unsupported("class 5") { $0.bytes[$0.entry(.complete) + 1] = 5 },
        unsupported("class 6, Apple's F") { $0.bytes[$0.addRetired(.complete, 2) + 1] = 6 },
        unsupported("class 7, Apple's CX") { $0.bytes[$0.addRetired(.complete, 2) + 1] = 7 },
    ]

    private static let wrapsOfEntries = [
        damaged("class A with a wrap by the device key") { $0.bytes[$0.entry(.complete) + 64] = 1 },
        damaged("class D without one") {
            $0.set([UInt8](repeating: 0, count: 40), at: $0.entry(.none) + 64)
        },
        damaged("class A with a public key") { $0.bytes[$0.entry(.complete) + 104] = 1 },
        damaged("class C with a MAC of a public key") {
            $0.bytes[$0.entry(.completeUntilFirstUserAuthentication) + 136] = 1
        },
        damaged("class D with a MAC of a public key") { $0.bytes[$0.entry(.none) + 199] = 1 },
        damaged("class B without a public key") {
            $0.set([UInt8](repeating: 0, count: 32), at: $0.entry(.completeUnlessOpen) + 104)
        },
        damaged("class B without all three") {
            $0.set([UInt8](repeating: 0, count: 96), at: $0.entry(.completeUnlessOpen) + 104)
        },
        damaged("retired class B with MACs") { $0.addRetired(.completeUnlessOpen, 2) },
        damaged("retired class B with one MAC") { copy in
            let added = copy.addRetired(.completeUnlessOpen, 2)
            copy.set([UInt8](repeating: 0, count: 32), at: added + 136)
        },
    ]
}

extension StoredKeybag {
    /// Adds a retired copy of a class's key under another generation; returns where the entry is.
    @discardableResult
    mutating func addRetired(_ protectionClass: ProtectionClass, _ generation: UInt32) -> Int {
        let added = repeatEntry(protectionClass)
        bytes[added + 2] = 2
        set(generation, at: added + 4)
        return added
    }
}
