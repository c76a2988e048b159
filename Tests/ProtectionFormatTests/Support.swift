import TestEffort
import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

extension FormatVector: CustomTestStringConvertible {
    public var testDescription: String { name }
}

/// What a scenario comes to when no decoder of the library says so itself.
struct Refusal: Error {
    let words: String

    init(_ words: String) { self.words = words }
}

/// What `body` comes to, in the words of `expect:`.
func outcome(_ body: () throws -> Void) -> String {
    do {
        try body()
        return "success"
    } catch FormatError.damaged(let layer, _) {
        return "damaged \(layer.rawValue)"
    } catch FormatError.unsupported {
        return "unsupported"
    } catch FormatError.notOurs {
        return "not ours"
    } catch let refusal as Refusal {
        return refusal.words
    } catch {
        return "\(error)"
    }
}

extension SecretBytes {
    /// Bytes that are no secret here.
    init(_ bytes: [UInt8]) {
        self.init(byteCount: bytes.count) { slot in slot.copyBytes(from: bytes) }
    }

    borrowing func readable() -> [UInt8] { withUnsafeBytes { Array($0) } }
}

/// Secret bytes where only a copyable value can stand.
final class Held: Sendable {
    let bytes: SecretBytes

    init(_ bytes: consuming SecretBytes) { self.bytes = bytes }
}

extension FormatVector {
    func fileID() throws -> FileID { try FileID(bytes: bytes("file id")) }

    func keybag() throws -> KeybagUUID { try KeybagUUID(bytes: bytes("keybag")) }

    func secret(_ field: String) throws -> SecretBytes { SecretBytes(try bytes(field)) }

    func layout() throws -> ChunkLayout {
        ChunkLayout(exponent: UInt8(try number("chunk size").trailingZeroBitCount))!
    }

    /// The field with a class key, for example `class key a 1`.
    static func field(of name: ClassKeyName) -> String {
        (name.kind == .secrets ? "class key of secrets " : "class key ")
            + "\(["a", "b", "c", "d"][Int(name.protectionClass.rawValue) - 1]) \(name.generation)"
    }

    /// The file key of a head, opened with the class keys of the scenario.
    func fileKey(of wrap: WrapRecord) throws -> FileKey {
        guard wrap.classKey.keybag == (try keybag()) else { throw Refusal("foreign keybag") }
        let field = Self.field(of: wrap.classKey)
        guard has(field) else { throw Refusal("key lost") }
        do throws(KeyError) {
            let secret = SecretBytes(try! bytes(field))  // it is there
            if wrap.classKey.protectionClass == .completeUnlessOpen {
                return try ClassBPrivateKey(name: wrap.classKey, secret: secret).unwrap(wrap.wrapped)
            }
            return try ClassKey(name: wrap.classKey, secret: secret).unwrap(wrap.wrapped)
        } catch {
            throw Refusal("damaged wrap")
        }
    }

    /// The origin of a file as far as the keys of the scenario can check it. FORMAT.md §3.3.
    func origin(of head: Head) throws -> OriginMark.Verdict {
        let origin = head.wrap.origin
        let message = OriginMark.message(
            file: head.prefix.fileID, classKey: head.wrap.classKey, verdict: origin.verdict,
            wrapped: head.wrap.wrapped, commitment: head.wrap.commitment)
        switch origin.key {
        case .none: return .unverified
        case .device:
            let key = try DeviceKey(secret: secret("device key")).originMACKey(for: keybag())
            return try key.isValid(origin.mac, for: message) ? min(origin.verdict, .thisDevice) : .unverified
        case .classC:
            let name = ClassKeyName(
                keybag: try keybag(), protectionClass: .completeUntilFirstUserAuthentication,
                generation: origin.generation)
            guard has(Self.field(of: name)) else { return .unverified }
            let key = try ClassKey(name: name, secret: secret(Self.field(of: name))).originMACKey()
            return try key.isValid(origin.mac, for: message) ? origin.verdict : .unverified
        }
    }
}

extension OriginMark.Verdict {
    /// The words of `origin:`.
    var words: String {
        switch self {
        case .unverified: "unverified"
        case .thisDevice: "this device"
        case .verified: "verified"
        }
    }
}

/// Opens a sealed chunk, and seals it again with the same nonce: the same bytes must come out.
func openChunk(_ sealed: [UInt8], index: UInt64, in prefix: Prefix, _ key: borrowing SecretBytes) throws -> [UInt8] {
    guard sealed.count >= ChunkLayout.overhead else { throw Refusal("damaged chunk") }
    let associated = prefix.associatedData(.chunk, index: index)
    var text = [UInt8](repeating: 0, count: sealed.count - ChunkLayout.overhead)
    var again = [UInt8](repeating: 0, count: sealed.count)
    var opener = try Opener(key: key)
    var sealer = try Sealer(key: key)
    try sealed.withUnsafeBytes { sealed in
        try associated.withUnsafeBytes { associated in
            try text.withUnsafeMutableBytes { text in
                do throws(KeyError) {
                    try opener.open(sealed, associated: associated, into: text)
                } catch {
                    throw Refusal("damaged chunk")
                }
                try again.withUnsafeMutableBytes { again in
                    try sealer.seal(
                        UnsafeRawBufferPointer(text), nonce: UnsafeRawBufferPointer(rebasing: sealed[..<12]),
                        associated: associated, into: again)
                }
            }
        }
    }
    #expect(again == sealed)
    return text
}

/// Opens the inline file of a head.
func openInline(_ head: Head, _ headKey: borrowing SecretBytes) throws(FormatError) -> [UInt8] {
    var text = [UInt8](repeating: 0, count: head.inline.count - ChunkLayout.overhead)
    try text.lendMutableBytes { text throws(FormatError) in
        try InlineFile.open(
            head.inline, counter: head.content.record.counter, in: head.prefix, under: headKey, into: text)
    }
    return text
}

extension SeededGenerator {
    mutating func bytes(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            var value: UInt64 = 0
            while filled < count {
                value = filled % 8 == 0 ? next() : value >> 8
                buffer[filled] = UInt8(truncatingIfNeeded: value)
                filled += 1
            }
        }
    }
}

/// `bytes` with the SHA-256 in its last 32 bytes made anew.
func checkedAnew(_ bytes: [UInt8]) throws(KeyError) -> [UInt8] {
    bytes.dropLast(32) + (try Digest.sha256(Array(bytes.dropLast(32))))
}

/// The bytes of a good head, to be altered.
enum HeadVector {
    static func inline() throws -> [UInt8] { try FormatVector.named("head/inline-5").bytes("bytes") }
}
