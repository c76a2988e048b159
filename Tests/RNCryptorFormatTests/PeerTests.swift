import Foundation
import ProtectionKeys
import TestEffort
import Testing

@testable import RNCryptorFormat

/// Against peer.py, which was written from docs/reference/RNCRYPTOR.md and knows no Swift.
@Suite struct PeerTests {
    private static let program = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
        "peer.py")

    private enum Value: Encodable {
        case number(Int)
        case bytes([UInt8])

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .number(let number): try container.encode(number)
            case .bytes(let bytes): try container.encode(hexadecimal(bytes))
            }
        }
    }

    private struct Answer: Decodable {
        let message: String?
        let text: String?
    }

    private static func python(_ arguments: [String], input: Data = Data()) throws -> (status: Int32, output: Data) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["-i", "/usr/bin/python3", "-B"] + arguments
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("rncryptor-\(UUID().uuidString)")
        try input.write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let output = Pipe()
        (process.standardInput, process.standardOutput) = (try FileHandle(forReadingFrom: file), output)
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, text)
    }

    /// Whether there is a Python with the package `cryptography`; if not, says so.
    static let hasPython: Bool = {
        if (try? python(["-c", "import cryptography"]))?.status == 0 { return true }
        print("PeerTests skipped: python3 with the package cryptography is not here")
        return false
    }()

    private func ask(_ requests: [[String: Value]]) throws -> [Answer] {
        var input = Data()
        for request in requests { input += try JSONEncoder().encode(request) + Data("\n".utf8) }
        let done = try Self.python([Self.program.path], input: input)
        #expect(done.status == 0)
        return try done.output.split(separator: UInt8(ascii: "\n")).map {
            try JSONDecoder().decode(Answer.self, from: Data($0))
        }
    }

    /// A message's circumstances, random.
    private struct Case {
        let isOfKeys: Bool
        let secret: [UInt8]
        let text: [UInt8]

        init(_ index: Int, _ random: inout SeededGenerator) {
            isOfKeys = index % 2 == 0
            let length = isOfKeys ? 64 : [1, 20, 64, 65, 200].randomElement(using: &random)!
            secret = random.bytes(length)
            text = random.bytes([0, 1, 15, 16, 17, 1000, 70_000].randomElement(using: &random)!)
        }

        func swift() throws -> RNCryptorSecret {
            isOfKeys
                ? try RNCryptorSecret(keys: SecretBytes(secret)) : try RNCryptorSecret(password: SecretBytes(secret))
        }
    }

    @Test(.enabled(if: hasPython)) func oursOpensThere() throws {
        var random = Effort.generator("PeerTests")
        let cases = (0..<40).map { Case($0, &random) }
        let messages = try cases.map { try sealed($0.text, with: $0.swift()) }
        let answers = try ask(
            zip(cases, messages).map {
                ["version": .number(3), "secret": .bytes($0.secret), "message": .bytes($1)]
            })
        try #require(answers.count == cases.count)
        for (one, answer) in zip(cases, answers) { #expect(answer.text == hexadecimal(one.text)) }
    }

    @Test(.enabled(if: hasPython)) func theirsOpensHere() throws {
        var random = Effort.generator("PeerTests", 1)
        let cases = (0..<40).map { Case($0, &random) }
        let answers = try ask(
            cases.map {
                [
                    "version": .number(Int.random(in: 2...3, using: &random)), "secret": .bytes($0.secret),
                    "text": .bytes($0.text), "initial": .bytes(random.bytes(16)),
                    "salts": .bytes($0.isOfKeys ? [] : random.bytes(16)),
                ]
            })
        try #require(answers.count == cases.count)
        for (one, answer) in zip(cases, answers) {
            let message = try #require(answer.message.flatMap(Hexadecimal.bytes))
            #expect(try opened(message, with: one.swift()) == one.text)
        }
    }

    /// Version 2 cut passwords to as many bytes as they have UTF-16 code units, or did not: both open. Version 3 never did.
    @Test(.enabled(if: hasPython)) func cutPasswordsOfVersion2() throws {
        let passwords = [("中文密码", 4), ("пароль", 6), ("naïve", 5), ("🔑🔑", 4), ("a🔑b", 4), ("ascii", 5)]
        for (password, characters) in passwords {
            #expect(password.utf16.count == characters)
            let bytes = Array(password.utf8)
            let common: [String: Value] = [
                "secret": .bytes(bytes), "text": .bytes([1, 2, 3]), "initial": .bytes(pattern(16)),
                "salts": .bytes(pattern(16)),
            ]
            let cut: [String: Value] = ["cut": .number(characters)]
            let answers = try ask([
                common.merging(["version": .number(2)]) { $1 },
                common.merging(["version": .number(2)]) { $1 }.merging(cut) { $1 },
                common.merging(["version": .number(3)]) { $1 }.merging(cut) { $1 },
            ])
            let messages = try answers.map { try #require($0.message.flatMap(Hexadecimal.bytes)) }
            #expect(try opened(messages[0], with: .password(password)) == [1, 2, 3])
            #expect(try opened(messages[1], with: .password(password)) == [1, 2, 3])
            // Another end may not matter to the old writer, as it does not in "naïvex"; another beginning does to both.
            #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
                try opened(messages[0], with: .password("x" + password))
            }
            #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
                try opened(messages[1], with: .password("x" + password))
            }
            if bytes.count > characters {
                #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
                    try opened(messages[2], with: .password(password))
                }
            }
            for message in messages[..<2] {
                var altered = message
                altered[40] ^= 1
                #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
                    try opened(altered, with: .password(password))
                }
            }
        }
    }
}

extension SeededGenerator {
    fileprivate mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in .random(in: 0...255, using: &self) }
    }
}
