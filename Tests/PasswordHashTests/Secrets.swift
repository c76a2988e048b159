import Foundation
import PasswordHash
import TestEffort

extension SecretBytes {
    /// Bytes that are no secret here.
    init(_ bytes: some Collection<UInt8>) {
        self.init(byteCount: bytes.count) { slot in slot.copyBytes(from: bytes) }
    }

    init(_ text: String) { self.init(Array(text.utf8)) }

    /// A readable copy, which only a test may make.
    borrowing func readable() -> [UInt8] { withUnsafeBytes { Array($0) } }
}

extension Iterations {
    /// The least there is, for tests that derive.
    static let fewest = try! Iterations(allowed.lowerBound)
}

/// A generator for one test, with the line that repeats it.
func seeded(_ test: String) -> (seed: UInt64, generator: SeededGenerator) {
    (Effort.seed, Effort.generator(test))
}

extension SeededGenerator {
    /// A password without zero bytes: every length that a block of SHA-256 minds, and any other.
    mutating func password() -> [UInt8] {
        let lengths = [1, 8, 31, 32, 63, 64, 65, 127, 128, 129, 1023, 1024, Int.random(in: 1...1024, using: &self)]
        return (0..<lengths.randomElement(using: &self)!).map { _ in UInt8.random(in: 1...255, using: &self) }
    }
}

/// What went wrong, or nil.
func error(of body: () throws -> Void) -> PasswordError? {
    do { try body() } catch { return error as? PasswordError }
    return nil
}

func hexadecimal(_ bytes: [UInt8]) -> String { bytes.map { String(format: "%02x", $0) }.joined() }

func bytes(hexadecimal text: some StringProtocol) -> [UInt8] {
    let digits = Array(text.utf8)
    return stride(from: 0, to: digits.count, by: 2).map {
        UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)!
    }
}
