import TestVectors

@testable import ProtectionFormat
@testable import ProtectionKeys

/// The small records of a keybag's directory and of the keyring. FORMAT.md §§2.3–2.5, 2.12, 2.13.
///
///     1  which of them; bit 7: it gets its length and a good check
///     …  the record
extension FuzzTarget {
    static let records = FuzzTarget("records", longest: 5120, seeds: RecordTarget.seeds, run: RecordTarget.run)
}

private enum RecordTarget {
    private static let kinds = ["attempts", "event", "transition", "ring-payload"]

    static func seeds() throws -> [[UInt8]] {
        try kinds.enumerated().flatMap { index, folder in
            try FormatVector.all(in: folder).map { vector in
                let bytes = try vector.bytes("bytes")
                return index < 2 ? [UInt8(index) | 0x80] + bytes.dropLast(32) : [UInt8(index)] + bytes
            }
        }
    }

    static func run(_ bytes: [UInt8]) throws {
        var input = Input(bytes)
        let how = input.byte()
        let stored = input.remainder()
        func checked(_ length: Int) throws -> [UInt8] {
            guard how.has(7) else { return stored }
            var bytes = Array(stored.prefix(length - 32))
            bytes.pad(to: length - 32)
            return try Known.checked(bytes)
        }
        switch how & 7 {
        case 0: try attempts(checked(AttemptRecord.length))
        case 1: try event(checked(EventRecord.length))
        case 2: try transition(stored)
        case 3: try ringPayload(stored)
        case 4: try client(stored)
        default: try openFiles(stored)
        }
    }

    private static func attempts(_ bytes: [UInt8]) throws {
        let record: AttemptRecord
        do throws(FormatError) { record = try AttemptRecord(decoding: bytes) } catch { return }
        try hold(try record.encoded() == bytes, "a record of attempts is written in another way")
    }

    private static func event(_ bytes: [UInt8]) throws {
        guard let record = EventRecord(decoding: bytes) else { return }
        try hold(try record.encoded() == bytes, "an event is written in another way")
    }

    private static func transition(_ bytes: [UInt8]) throws {
        let record = TransitionRecord(decoding: bytes)
        try hold(record == TransitionRecord() || record.encoded == bytes, "a transition is written in another way")
    }

    /// Names need not be UTF-8: what is read is written as it was read.
    private static func client(_ bytes: [UInt8]) throws {
        guard let record = ClientRecord(decoding: bytes) else { return }
        let encoded = record.encoded
        try hold(encoded.count == ClientRecord.length, "a client of \(encoded.count) bytes")
        try hold(encoded[..<48] == bytes[..<48], "a client is written in another way")
        try hold(ClientRecord(decoding: encoded)?.pid == record.pid, "a client reads as another one")
    }

    private static func openFiles(_ bytes: [UInt8]) throws {
        let names = OpenFileName.decodeAll(bytes)
        try hold(names.count <= OpenFileName.maximumCount, "\(names.count) names")
        let file = [UInt8](repeating: 0, count: OpenFileName.offset(of: 0)) + names.flatMap(OpenFileName.encode)
        try hold(OpenFileName.decodeAll(file) == names, "names read as others")
        // As somebody has it open, whatever the name is.
        let own = OpenFileName.encode(bytes)
        let one = [UInt8](repeating: 0, count: OpenFileName.offset(of: 0)) + own
        try hold(OpenFileName.decodeAll(one) == (bytes.isEmpty ? [] : [bytes.suffix(254)]), "a name is another one")
    }

    private static func ringPayload(_ bytes: [UInt8]) throws {
        let uuid = try KeybagUUID(bytes: [UInt8](repeating: 1, count: 16))
        try bytes.withUnsafeBytes { payload in
            let isOurs = RingPayload.loadedAt(payload) != nil
            for kind in ClassKeyKind.allCases {
                for protectionClass in kind.classes {
                    let name = ClassKeyName(keybag: uuid, kind: kind, protectionClass: protectionClass, generation: 1)
                    let key = RingPayload.key(of: name, in: payload)
                    try hold(key == nil || (isOurs && key?.count == 32), "a key in no payload")
                    try hold(isOurs || !RingPayload.holds(protectionClass, payload), "a class in no payload")
                    if kind == .files, key != nil {
                        try hold(RingPayload.holds(protectionClass, payload), "a key whose class is not there")
                    }
                }
            }
        }
        // One that is made of these bytes as a key.
        let name = ClassKeyName(keybag: uuid, protectionClass: .complete, generation: 7)
        let key = try ClassKey(name: name, secret: Known.secret())
        var made = [UInt8](repeating: 0, count: RingPayload.length(count: 2))
        try made.withUnsafeMutableBytes { made in
            for index in 0..<2 {
                RingPayload.write(RingPayload.Entry(key), at: index, of: 2, loadedAt: UInt64(bytes.count), into: made)
            }
            let payload = UnsafeRawBufferPointer(made)
            try hold(RingPayload.loadedAt(payload) == UInt64(bytes.count), "another time")
            try hold(RingPayload.key(of: name, in: payload)?.allSatisfy { $0 == 7 } == true, "another key")
        }
    }
}
