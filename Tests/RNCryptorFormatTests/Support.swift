import Foundation
import ProtectionKeys

@testable import RNCryptorFormat

extension SecretBytes {
    /// Bytes that are no secret here.
    init(_ bytes: some Collection<UInt8>) {
        self.init(byteCount: bytes.count) { slot in slot.copyBytes(from: bytes) }
    }
}

extension RNCryptorSecret {
    static func password(_ text: String) throws -> RNCryptorSecret {
        try RNCryptorSecret(password: SecretBytes(Array(text.utf8)))
    }

    static func keys(_ bytes: [UInt8]) throws -> RNCryptorSecret { try RNCryptorSecret(keys: SecretBytes(bytes)) }

    /// Sixty-four different bytes.
    static func anyKeys() throws -> RNCryptorSecret { try keys((100..<164).map { UInt8($0) }) }
}

/// Seals by a sealer of its own, piece by piece.
func sealed(_ text: [UInt8], _ sealer: consuming RNCryptorSealer, pieces: [Int]) throws -> [UInt8] {
    var message = sealer.header
    var (rest, turn) = (text[...], 0)
    while !rest.isEmpty || turn == 0 {
        let piece = Array(rest.prefix(pieces[turn % pieces.count]))
        var output = [UInt8](repeating: 0xEE, count: piece.count + RNCryptorSealer.slack)
        let count = try piece.lendBytes { piece throws(RNCryptorError) in
            try output.lendMutableBytes { output throws(RNCryptorError) in try sealer.seal(piece, into: output) }
        }
        message += output[..<count]
        rest = rest.dropFirst(piece.count)
        turn += 1
    }
    return message + (try sealer.finish())
}

func sealed(_ text: [UInt8], with secret: borrowing RNCryptorSecret) throws -> [UInt8] {
    try text.lendBytes { text throws(RNCryptorError) in try RNCryptor.seal(text, with: secret) }
}

func opened(_ message: [UInt8], with secret: borrowing RNCryptorSecret) throws(RNCryptorError) -> [UInt8] {
    try message.lendBytes { message throws(RNCryptorError) in try RNCryptor.open(message, with: secret) }
}

/// The first way through a message, in pieces.
func verified(
    _ message: [UInt8], with secret: borrowing RNCryptorSecret, pieces: [Int]
) throws(RNCryptorError) -> RNCryptorOpener {
    let header = try message.lendBytes { message throws(RNCryptorError) in try RNCryptorHeader(readFrom: message) }
    var verifier = try RNCryptorVerifier(header, with: secret)
    var (rest, turn) = (message[header.length...], 0)
    while !rest.isEmpty {
        let piece = Array(rest.prefix(pieces[turn % pieces.count]))
        try piece.lendBytes { piece throws(RNCryptorError) in try verifier.update(piece) }
        rest = rest.dropFirst(piece.count)
        turn += 1
    }
    return try verifier.finish()
}

/// The second way.
func text(of message: [UInt8], _ opener: consuming RNCryptorOpener) throws(RNCryptorError) -> [UInt8] {
    var text: [UInt8] = []
    while let range = opener.next {
        // In place, as the command line does.
        var piece = Array(message[Int(range.lowerBound)..<Int(range.upperBound)])
        let count = try piece.lendMutableBytes { piece throws(RNCryptorError) in
            try opener.open(UnsafeRawBufferPointer(piece), into: piece)
        }
        text += piece[..<count]
    }
    return text
}

/// Bytes of which no two stretches are alike.
func pattern(_ count: Int) -> [UInt8] { Array(patternBytes[..<count]) }
private let patternBytes = (0..<4 << 20).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) }

func hexadecimal(_ bytes: [UInt8]) -> String { Hexadecimal.text(bytes) }
