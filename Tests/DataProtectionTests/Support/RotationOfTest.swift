import ProtectionFormat
import ProtectionKeys
import SystemPackage

@testable import DataProtection

/// Rotations in tests, at little cost.
extension TestKeybag {
    /// Makes new class keys; the passcode stays.
    @discardableResult
    func rotate(passcode: String = TestKeybag.passcode) throws -> UInt32 {
        try keybag.open(passcode: secret(passcode)).rotate(passcode: secret(passcode), iterations: Self.iterations)
    }

    /// Drops the retired class keys.
    func forgetRetired(passcode: String = TestKeybag.passcode) throws {
        try keybag.open(passcode: secret(passcode)).forgetRetiredKeys(before: .max)
    }

    /// The newest generation that the ring has of class keys A and B, and of C, and the newest that the keybag has: all the same, unless a rotation
    /// has failed half.
    func newestGenerations() throws -> [UInt32?] {
        let inRing = try [Place.unlocked, .firstUnlock].map { place in
            try payload(place).withUnsafeBytes { RingPayload.newestGeneration($0) }
        }
        return inRing + [try keybag.file.load().copy.usedEntries.map(\.generation).max()]
    }

    /// A copy of the keybag's directory as somebody else may have made it.
    func savedCopy() throws -> FilePath {
        let copy = scratchPath.appending("saved-\(UInt32.random(in: 0...UInt32.max))")
        try OwnDirectory.make(copy)
        for name in KeybagFile.allNames { try copy.appending(name).overwrite(file(name).contents()) }
        for name in KeybagFile.allNames { try copy.appending(name).setMode(0o600) }
        return copy
    }
}

/// What a file's slots say of its key.
struct StoredWraps {
    /// Those of the slots in use, in their order.
    let records: [WrapRecord]

    init(_ path: FilePath) throws {
        let bytes = try path.contents()
        records = [0, 1].compactMap { slot in
            let head = Array(bytes.dropFirst(slot * Head.length).prefix(Head.length))
            return (try? Head.isGood(head)) == true ? try? Head(decoding: head).wrap : nil
        }
    }

    /// Class-key generations of both slots.
    var generations: Set<UInt32> { Set(records.map(\.classKey.generation)) }
    /// The same of class key C behind the origin MACs.
    var originGenerations: Set<UInt32> { Set(records.map(\.origin.generation)) }
}

extension Sequence<UInt8> {
    /// Whether `part` lies somewhere in these bytes.
    func holds(_ part: [UInt8]) -> Bool {
        let all = Array(self)
        guard !part.isEmpty, all.count >= part.count else { return false }
        return (0...(all.count - part.count)).contains { start in
            all[start] == part[0] && all[start..<(start + part.count)].elementsEqual(part)
        }
    }
}
