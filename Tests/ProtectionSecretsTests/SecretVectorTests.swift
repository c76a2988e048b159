import Foundation
import GRDB
import ProtectionKeys
import TestVectors
import Testing

@testable import ProtectionKeys
@testable import ProtectionSecrets

/// FORMAT.md §2.15: a row, from its columns to the value.
@Suite struct SecretVectorTests {
    private struct Refusal: Error { let words: String }

    @Test(arguments: try FormatVector.all(in: "secret").map(\.name))
    func rowComesToWhatIsExpected(name: String) throws {
        let vector = try FormatVector.named(name)
        do {
            let value = try Self.value(of: vector)
            #expect(vector.isSuccess)
            #expect(try vector.bytes("text") == value)
        } catch let refusal as Refusal {
            #expect(refusal.words == vector.expect)
        }
    }

    private static func value(of vector: FormatVector) throws -> [UInt8] {
        guard let row = SecretRow(try columns(of: vector)) else { throw Refusal(words: "damaged secret") }
        let keybag = try KeybagUUID(bytes: vector.bytes("keybag"))
        let className = row.classKey(of: keybag)
        let letter = ["a", "b", "c", "d"][Int(className.protectionClass.rawValue) - 1]
        let field = "class key of secrets \(letter) \(className.generation)"
        guard vector.has(field) else { throw Refusal(words: "key lost") }
        let key = try ClassKey(name: className, secret: secret(vector.bytes(field)))
        let isHereOnly = [2, 4].contains(try vector.number("accessibility"))
        let device = try DeviceKey(secret: secret(vector.bytes("device key")))
        do throws(KeyError) {
            let item = try isHereOnly ? key.unwrapItem(row.wrapped, with: device) : key.unwrapItem(row.wrapped)
            let value = try item.open(row.value, boundTo: row.record.associatedData(keybag))
            return value.withUnsafeBytes { Array($0) }
        } catch {
            throw Refusal(words: "damaged secret")
        }
    }

    /// As SQLite gives them, in the order of the table.
    private static func columns(of vector: FormatVector) throws -> Row {
        func text(_ name: String) throws -> (any DatabaseValueConvertible)? { try vector.text(name) }
        func number(_ name: String) throws -> (any DatabaseValueConvertible)? { Int64(try vector.number(name)) }
        func bytes(_ name: String) throws -> (any DatabaseValueConvertible)? { Data(try vector.bytes(name)) }
        return [
            "id": try bytes("id"), "kind": try number("kind"), "accessibility": try number("accessibility"),
            "accessGroup": try text("accessGroup"), "service": try text("service"), "account": try text("account"),
            "protocol": try text("protocol"), "host": try text("host"), "port": try number("port"),
            "path": try text("path"), "realm": try text("realm"), "name": try text("name"),
            "created": try number("created"), "modified": try number("modified"),
            "generation": try number("generation"), "wrapped": try bytes("wrapped"), "value": try bytes("value"),
        ]
    }

    private static func secret(_ bytes: [UInt8]) -> SecretBytes {
        SecretBytes(byteCount: bytes.count) { $0.copyBytes(from: bytes) }
    }
}
