import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// FORMAT.md §2.16: a backup keybag, from its bytes to all class keys.
@Suite struct BackupKeybagVectorTests {
    @Test(arguments: try FormatVector.all(in: "backup-keybag"))
    func comesToWhatIsExpected(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        let outcome = outcome {
            let keybag = try BackupKeybag(decoding: bytes)
            let kek = try BackupKEK(
                passphrase: vector.secret("passphrase"), salt: keybag.salt, iterations: keybag.iterations,
                keybag: keybag.uuid)
            guard let key = try? kek.unwrap(keybag.wrapped) else { throw Refusal("wrong passphrase") }
            guard try BackupKeybag.isMACGood(bytes, under: key) else { throw Refusal("damaged backup keybag mac") }
            var opened: [String] = []
            for entry in keybag.entries {
                guard let name = entry.name(in: keybag.uuid) else { continue }
                let field = FormatVector.field(of: name)
                let bytes = try Self.open(entry, as: name, key)
                // Of two keys of one name the first is that of the field.
                guard vector.isSuccess, !opened.contains(field) else { continue }
                #expect(bytes == (try vector.bytes(field)))
                opened.append(field)
            }
            guard vector.isSuccess else { return }
            #expect(opened.sorted() == vector.names.filter { $0.hasPrefix("class key ") })
            #expect(try keybag.encoded(under: key) == bytes)
        }
        #expect(outcome == vector.expect)
    }

    private static func open(
        _ entry: BackupEntry, as name: ClassKeyName, _ key: borrowing BackupKey
    ) throws -> [UInt8] {
        if name.kind == .files, name.protectionClass == .completeUnlessOpen {
            guard let opened = try? key.unwrapB(entry.wrapped, as: name), try opened.id() == entry.id
            else { throw Refusal("damaged class key") }
            return opened.withUnsafeBytes { Array($0) }
        }
        guard let opened = try? key.unwrap(entry.wrapped, as: name), try opened.id() == entry.id
        else { throw Refusal("damaged class key") }
        return opened.withUnsafeBytes { Array($0) }
    }
}
