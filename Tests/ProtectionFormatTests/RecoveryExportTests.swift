import TestVectors
import Testing

@testable import ProtectionFormat

/// FORMAT.md §2.9: a keybag as text.
@Suite struct RecoveryExportTests {
    /// What reading `text` comes to.
    private func outcome(_ text: [UInt8]) -> String {
        do throws(FormatError) {
            _ = try RecoveryExport(decoding: text)
            return "success"
        } catch {
            switch error {
            case .notOurs: return "none"
            case .damaged(let layer, _): return "damaged \(layer.rawValue)"
            case .unsupported: return "unsupported"
            }
        }
    }

    private func vector() throws -> (text: [UInt8], copy: [UInt8]) {
        let vector = try FormatVector.named("recovery-export/alone")
        return (try vector.bytes("bytes"), try vector.bytes("copy"))
    }

    @Test(arguments: try FormatVector.all(in: "recovery-export"))
    func isReadAsTheFormatSays(vector: FormatVector) throws {
        #expect(try outcome(vector.bytes("bytes")) == vector.expect)
        guard vector.isSuccess else { return }
        let export = try RecoveryExport(decoding: vector.bytes("bytes"))
        #expect(try export.copy == vector.bytes("copy"))
        #expect(try export.made == vector.text("made"))
        #expect(try export.keybag == KeybagCopy(decoding: export.copy).uuid)
    }

    @Test func whatIsWrittenIsTheVectorAfterItsExplanation() throws {
        let (text, copy) = try vector()
        let written = try RecoveryExport(of: copy, made: "2026-11-20T18:00:00Z").encoded()
        #expect(Array(written.suffix(text.count)) == text)
        let explanation = String(decoding: written.dropLast(text.count), as: UTF8.self)
        #expect(explanation.contains("protectfs recovery restore"))
        #expect(explanation.split(separator: "\n").allSatisfy { $0.utf8.count <= 72 })
        #expect(try RecoveryExport(decoding: written).copy == copy)
    }

    @Test func everyOtherByteIsRefused() throws {
        let text = try vector().text
        // The last newline may be missing, or be the beginning of other text.
        for index in text.indices.dropLast() {
            let others = (0..<8).map { text[index] ^ 1 << $0 } + [0x0A, 0x0D, 0x20]
            for byte in others where byte != text[index] {
                var altered = text
                altered[index] = byte
                #expect(outcome(altered) != "success", "byte \(index): \(byte)")
            }
        }
    }

    @Test func everyTruncationAndDeletionIsRefused() throws {
        let text = try vector().text
        for length in 0..<text.count - 1 { #expect(outcome(Array(text.prefix(length))) != "success", "\(length)") }
        for index in text.indices.dropLast() {
            var shorter = text
            shorter.remove(at: index)
            #expect(outcome(shorter) != "success", "\(index)")
        }
    }

    @Test func anEndlessFileIsNotRead() throws {
        let text = try vector().text
        let longest = [UInt8](repeating: 0x0A, count: RecoveryExport.maximumLength - text.count) + text
        #expect(outcome(longest) == "success")
        #expect(outcome([0x0A] + longest) == "damaged recovery export")
    }

    @Test func theLargestKeybagFits() throws {
        let largest = try FormatVector.named("keybag/most-entries").bytes("bytes")
        let export = try RecoveryExport(of: largest, made: "2026-11-20T18:00:00Z").encoded()
        #expect(try RecoveryExport(decoding: export).copy == largest)
        #expect((KeybagCopy.maximumLength + 2) / 3 * 4 / 64 * 66 + 2000 < RecoveryExport.maximumLength)
    }
}
