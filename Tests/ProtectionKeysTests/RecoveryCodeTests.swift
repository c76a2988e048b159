import TestEffort
import Testing

@testable import ProtectionKeys

/// FORMAT.md §2.7: what a person types is a code, or a typo that is called one.
@Suite struct RecoveryCodeTests {
    private static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    /// 32 symbols of a random code, readable.
    private static func symbols() throws -> [UInt8] { try RecoveryCode.random().symbols.readable() }

    private func typo(_ text: [UInt8]) -> RecoveryCodeTypo? {
        #expect(throws: RecoveryCodeTypo.self) { _ = try RecoveryCode(reading: SecretBytes(text)) }
    }

    @Test(arguments: try Vector.all(in: "recovery-code"))
    func isReadAsTheFormatSays(vector: Vector) throws {
        let text = try vector.bytes("text")
        switch vector.expect {
        case .success:
            let code = try RecoveryCode(reading: SecretBytes(text))
            #expect(try code.symbols.readable() == vector.bytes("symbols"))
        case .wrongLength: #expect(try typo(text) == .length(vector.number("length")))
        case .noSuchCharacter: #expect(try typo(text) == .character(group: vector.number("group")))
        default:
            #expect(vector.expect == .wrongChecksum)
            #expect(try typo(text) == .checksum(likelyGroup: vector.has("group") ? vector.number("group") : nil))
        }
    }

    @Test func isShownInGroupsAndReadBack() throws {
        for _ in 0..<100 {
            let code = try RecoveryCode.random()
            let shown = code.grouped().readable()
            #expect(shown.count == 39)
            #expect(shown.indices.allSatisfy { ($0 % 5 == 4) == (shown[$0] == UInt8(ascii: "-")) })
            #expect(shown.filter { $0 != UInt8(ascii: "-") }.allSatisfy(Self.alphabet.contains))
            let read = try RecoveryCode(reading: code.grouped())
            #expect(read.symbols.readable() == code.symbols.readable())
        }
    }

    @Test func noTwoAreTheSame() throws {
        #expect(Set(try (0..<1000).map { _ in try Self.symbols() }).count == 1000)
    }

    /// 26 of 32 symbols are random: over many codes each of them is each symbol.
    @Test func everyRandomSymbolOccursEverywhere() throws {
        var seen = Array(repeating: Set<UInt8>(), count: 26)
        for _ in 0..<1000 {
            for (place, symbol) in try Self.symbols().prefix(26).enumerated() { seen[place].insert(symbol) }
        }
        #expect(seen.allSatisfy { $0.count == 32 })
    }

    @Test func everySubstitutionIsATypoInItsGroup() throws {
        let code = try Self.symbols()
        for place in code.indices {
            for other in Self.alphabet where other != code[place] {
                var text = code
                text[place] = other
                #expect(typo(text) == .checksum(likelyGroup: place / 4 + 1), "symbol \(place)")
            }
        }
    }

    @Test func everyCharacterThatIsNoSymbolIsATypoInItsGroup() throws {
        let code = try Self.symbols()
        let allowed = Set(Self.alphabet + Array("abcdefghjkmnpqrstvwxyzOoIiLl -\t\r".utf8))
        for place in code.indices {
            for other in UInt8.min...UInt8.max where !allowed.contains(other) {
                var text = code
                text[place] = other
                #expect(typo(text) == .character(group: place / 4 + 1), "symbol \(place), byte \(other)")
            }
        }
    }

    @Test func everyDeletionAndInsertionIsATypo() throws {
        let code = try Self.symbols()
        for place in code.indices {
            var text = code
            text.remove(at: place)
            #expect(typo(text) == .length(31))
        }
        for place in 0...code.count {
            for symbol in Self.alphabet {
                var text = code
                text.insert(symbol, at: place)
                #expect(typo(text) == .length(33))
            }
        }
    }

    /// Two symbols are wrong then: no single one explains it.
    @Test func everyExchangeOfNeighboursIsATypo() throws {
        for _ in 0..<20 {
            let code = try Self.symbols()
            for place in code.indices.dropLast() where code[place] != code[place + 1] {
                var text = code
                text.swapAt(place, place + 1)
                #expect(typo(text) == .checksum(likelyGroup: nil), "symbol \(place)")
            }
        }
    }

    /// What BIP 350 promises for strings of this length: up to four wrong symbols, wherever they are.
    @Test func upToFourWrongSymbolsAreATypo() throws {
        var generator = Effort.generator("wrong symbols in a recovery code")
        for count in 2...4 {
            for _ in 0..<Effort.count(2000, 200_000) {
                var text = try Self.symbols()
                for place in text.indices.shuffled(using: &generator).prefix(count) {
                    text[place] = Self.alphabet.filter { $0 != text[place] }.randomElement(using: &generator)!
                }
                #expect(throws: RecoveryCodeTypo.self) { _ = try RecoveryCode(reading: SecretBytes(text)) }
            }
        }
    }

    @Test func aGroupIsConfirmedInAnySpelling() throws {
        let code = try RecoveryCode(reading: SecretBytes(Vector.named("recovery-code/worked-example").bytes("text")))
        for text in ["0123", " oi23 ", "OL-23", "0 1 2 3"] {
            let isGroup = code.isGroup(1, typedAs: SecretBytes(Array(text.utf8)))
            #expect(isGroup, "\(text)")
        }
        let isThird = code.isGroup(3, typedAs: SecretBytes(Array("89ab".utf8)))
        #expect(isThird)
        for text in ["", "012", "01234", "0124", "4567", "u123", "0123-4567"] {
            let isGroup = code.isGroup(1, typedAs: SecretBytes(Array(text.utf8)))
            #expect(!isGroup, "\(text)")
        }
    }

    @Test func anotherCodeDoesNotUnwrap() throws {
        let keybag = try KeybagUUID(bytes: run(from: 0xA0, count: 16))
        func kek(_ code: borrowing RecoveryCode, _ keybag: KeybagUUID, salt: UInt8 = 0xC0) throws -> RecoveryKEK {
            try RecoveryKEK(code: code, salt: run(from: salt), iterations: 1000, keybag: keybag)
        }
        let code = try RecoveryCode.random()
        let wrapped = try kek(code, keybag).wrap(KeybagKey.random(for: keybag))
        let opened = try kek(code, keybag).unwrap(wrapped)
        #expect(opened.keybag == keybag)
        let other = try KeybagUUID(bytes: run(from: 0xB0, count: 16))
        #expect(throws: KeyError.unwrapFailed) { _ = try kek(RecoveryCode.random(), keybag).unwrap(wrapped) }
        #expect(throws: KeyError.unwrapFailed) { _ = try kek(code, keybag, salt: 0xC1).unwrap(wrapped) }
        #expect(throws: KeyError.unwrapFailed) { _ = try kek(code, other).unwrap(wrapped) }
    }
}
