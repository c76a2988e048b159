import ProtectionFormat
import ProtectionKeys
import SystemPackage

@testable import DataProtection

/// The bytes of a keybag copy, to be altered field by field. FORMAT.md §2.1 is where the offsets come from.
struct StoredKeybag {
    var bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The copy in `keybag.0`.
    init(of bag: TestKeybag) throws { bytes = try bag.file("keybag.0").contents() }

    /// Where fields of the header are.
    enum Field {
        static let magic = 0, version = 8, features = 10, length = 12, sequence = 16, uuid = 24, deviceID = 40
        static let pathLength = 56, slotCount = 58, entryCount = 59, zero = 60, path = 64
    }

    var pathLength: Int { Int(bytes[Field.pathLength]) | Int(bytes[Field.pathLength + 1]) << 8 }
    var slotCount: Int { Int(bytes[Field.slotCount]) }
    var entryCount: Int { Int(bytes[Field.entryCount]) }

    /// Where a slot begins.
    func slot(_ index: Int) -> Int { Field.path + pathLength + 80 * index }

    /// Where the entry of a class begins: a new keybag has them in the order of the classes.
    func entry(_ protectionClass: ProtectionClass) -> Int { entry(Int(protectionClass.rawValue) - 1) }

    /// Where an entry begins.
    func entry(_ index: Int) -> Int { slot(slotCount) + 200 * index }

    /// Writes a little-endian integer.
    mutating func set(_ value: some FixedWidthInteger & UnsignedInteger, at offset: Int) {
        for byte in 0..<(value.bitWidth / 8) { bytes[offset + byte] = UInt8(truncatingIfNeeded: value >> (8 * byte)) }
    }

    /// Puts other bytes in the place of as many.
    mutating func set(_ replacement: [UInt8], at offset: Int) {
        bytes.replaceSubrange(offset..<offset + replacement.count, with: replacement)
    }

    /// Replaces the device key's path, with its length.
    mutating func setPath(_ path: [UInt8]) {
        bytes.replaceSubrange(Field.path..<Field.path + pathLength, with: path)
        set(UInt16(path.count), at: Field.pathLength)
    }

    /// Adds a copy of the 80 bytes of slot 0 behind the slots.
    mutating func repeatSlot() {
        let slot = Array(bytes[slot(0)..<slot(1)])
        bytes.insert(contentsOf: slot, at: self.slot(slotCount))
        bytes[Field.slotCount] += 1
    }

    /// Adds a copy of a class's entry behind the entries and returns where it is.
    mutating func repeatEntry(_ protectionClass: ProtectionClass) -> Int {
        let start = entry(protectionClass)
        let end = entry(entryCount)
        bytes.insert(contentsOf: Array(bytes[start..<start + 200]), at: end)
        bytes[Field.entryCount] += 1
        return end
    }

    /// Makes length and keyless check right again, as anybody can who has no key. The MAC stays as it was.
    mutating func finish() {
        set(UInt32(bytes.count), at: Field.length)
        finishCheck()
    }

    /// Makes the keyless check right again.
    mutating func finishCheck() {
        bytes.removeLast(32)
        bytes += try! Digest.sha256(bytes)  // SHA-256 of bytes in memory does not fail
    }

    /// Stores these bytes as the copies of that number.
    func store(in bag: TestKeybag, copies: [Int] = [0, 1]) throws {
        for copy in copies { try bag.file("keybag.\(copy)").overwrite(bytes) }
    }
}

extension TestKeybag {
    /// Changes both copies as somebody would who has the keybag key: MAC and check are right afterwards.
    func rewriteAuthentically(
        passcode: String = TestKeybag.passcode, _ change: (inout StoredKeybag) throws -> Void
    ) throws {
        var copy = try StoredKeybag(of: self)
        let key = try keybag.openWithPasscode(secret(passcode), try keybag.file.load())
        try change(&copy)
        copy.finish()
        let clear = Array(copy.bytes.dropLast(64))
        copy.set(try key.macKey().tag(of: clear), at: clear.count)
        copy.finishCheck()
        try copy.store(in: self)
    }
}
