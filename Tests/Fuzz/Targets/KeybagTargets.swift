import TestVectors

@testable import ProtectionFormat
@testable import ProtectionKeys

extension FuzzTarget {
    /// FORMAT.md §2.1: 1 byte (bit 0: length, MAC and check are made good), then the copy, without MAC and check then.
    static let keybag = FuzzTarget("keybag", longest: 4096) {
        try FormatVector.all(in: "keybag").map { [1] + (try $0.bytes("bytes").dropLast(64)) }
    } run: { bytes in
        var input = Input(bytes)
        let isClosed = input.byte().has(0)
        let stored = isClosed ? try closedKeybag(input.remainder()) : input.remainder()
        let copy: KeybagCopy
        do throws(FormatError) { copy = try KeybagCopy(decoding: stored) } catch { return }
        let key = try Known.keybagKey(copy.uuid.bytes)
        try hold(try KeybagCopy.isMACGood(stored, under: key) == isClosed, "the MAC of a keybag")
        try hold(try copy.encoded(under: key).dropLast(64) == stored.dropLast(64), "a keybag is written in another way")
        try hold(KeybagCopy.uuid(in: stored) == copy.uuid, "the UUID of a keybag")
        for protectionClass in ClassKeyKind.files.classes {
            let name = copy.activeName(protectionClass)
            try hold(copy.entry(of: name) == copy.active(protectionClass), "the active key of a class")
            try hold(copy.holds(.secrets) || copy.activeSecretsName(protectionClass) == nil, "a key of secrets")
        }
        for entry in copy.usedEntries {
            guard let name = copy.name(of: entry) else { throw Broken(description: "a key without a name") }
            try hold(copy.entry(of: name) == entry, "two keys of one name")
            try hold((try? key.unwrap(entry.wrapped, as: name)) == nil, "a foreign class key unwraps")
        }
        for slot in copy.slots { try hold(copy.slot(slot.kind) == slot, "two slots of one kind") }
        for entry in copy.fileEntries { _ = entry.publicHalf?.retired }
    }

    /// FORMAT.md §2.16: as `keybag`.
    static let backupKeybag = FuzzTarget("backup-keybag", longest: 2048, seeds: backupSeeds) { bytes in
        var input = Input(bytes)
        let isClosed = input.byte().has(0)
        var stored = input.remainder()
        if isClosed, stored.count >= 32 {
            let key = try Known.backupKey(Array(stored[16..<32]))
            stored = try KeybagEnvelope.closed(withLength(stored), under: key.macKey())
        }
        let backup: BackupKeybag
        do throws(FormatError) { backup = try BackupKeybag(decoding: stored) } catch { return }
        let key = try Known.backupKey(backup.uuid.bytes)
        try hold(try BackupKeybag.isMACGood(stored, under: key) == isClosed, "the MAC of a backup keybag")
        try hold(try backup.encoded(under: key).dropLast(64) == stored.dropLast(64), "it is written in another way")
        for entry in backup.entries {
            guard let name = entry.name(in: backup.uuid) else { continue }
            try hold(backup.entries(of: name).contains(entry), "an entry that is not of its name")
            try hold((try? key.unwrap(entry.wrapped, as: name)) == nil, "a foreign class key unwraps")
            let same = ClassKeyEntry(name: name, state: .active, id: entry.id, wrapped: entry.wrapped)
            try hold(backup.holds(same) && BackupEntry(same, wrapped: entry.wrapped) == entry, "an entry of a keybag")
            try hold(entry.with(entry.wrapped) == entry, "an entry wrapped anew")
        }
        let foreign = ClassKeyName(
            keybag: try KeybagUUID(bytes: backup.salt[..<16]), protectionClass: .none, generation: 1)
        try hold(foreign.keybag == backup.uuid || backup.entries(of: foreign).isEmpty, "a key of another keybag")
    }

    /// FORMAT.md §2.9: 1 byte (bit 0: markers and check are put around it; bit 1: it is a keybag copy, to be exported and read),
    /// then text.
    static let recoveryExport = FuzzTarget("recovery-export", longest: 4096, seeds: exportSeeds) { bytes in
        var input = Input(bytes)
        let how = input.byte()
        if how.has(1) {
            let copy = try closedKeybag(input.remainder())
            guard let export = try? RecoveryExport(of: copy, made: "2026-11-20T18:00:00Z") else { return }
            try hold(try RecoveryExport(decoding: export.encoded()) == export, "an export reads as another one")
            return
        }
        let text = how.has(0) ? try framed(input.remainder()) : input.remainder()
        let export: RecoveryExport
        do throws(FormatError) { export = try RecoveryExport(decoding: text) } catch { return }
        try hold(export.made.utf8.count == 20, "a time of another length")
        try hold(try RecoveryExport(decoding: export.encoded()) == export, "an export reads as another one")
    }

    private static func withLength(_ clear: [UInt8]) -> [UInt8] {
        guard clear.count >= 16 else { return clear }
        let length = clear.count + KeybagEnvelope.trailerLength
        return clear[..<12] + (0..<4).map { UInt8(truncatingIfNeeded: length >> (8 * $0)) } + clear[16...]
    }

    private static func closedKeybag(_ clear: [UInt8]) throws -> [UInt8] {
        guard clear.count >= 40 else { return clear }
        return try KeybagEnvelope.closed(withLength(clear), under: Known.keybagKey(Array(clear[24..<40])).macKey())
    }

    private static func framed(_ body: [UInt8]) throws -> [UInt8] {
        let lines = body + [0x0A]
        // As the reader does, which makes Strings of lines.
        let text = String(decoding: lines, as: UTF8.self)
        let check = Hexadecimal.text(try Digest.sha256(Array(text.utf8)))
        return Array("-----BEGIN PROTECTFS KEYBAG-----\n".utf8) + lines
            + Array("SHA-256: \(check)\n-----END PROTECTFS KEYBAG-----\n".utf8)
    }

    @Sendable private static func exportSeeds() throws -> [[UInt8]] {
        try FormatVector.all(in: "recovery-export").filter { $0.has("bytes") || $0.has("text") }.flatMap { vector in
            let text = try vector.bytes(vector.has("bytes") ? "bytes" : "text")
            return text.count <= 8192 ? [[0] + text] : []
        } + [[2] + FormatVector.named("keybag/retired").bytes("bytes").dropLast(64)]
    }

    /// There are no vectors of it: made of a keybag's.
    @Sendable private static func backupSeeds() throws -> [[UInt8]] {
        try FormatVector.all(in: "keybag").filter(\.isSuccess).map { vector in
            let copy = try KeybagCopy(decoding: vector.bytes("bytes"))
            let entries = copy.entries.map { BackupEntry($0, wrapped: $0.wrapped) }
            let backup = BackupKeybag(
                uuid: copy.uuid, made: 1, iterations: 10_000_000, salt: [UInt8](repeating: 1, count: 32),
                wrapped: copy.slots[0].wrapped, entries: entries)
            return [1] + (try backup.encoded(under: Known.backupKey(copy.uuid.bytes)).dropLast(64))
        }
    }
}
