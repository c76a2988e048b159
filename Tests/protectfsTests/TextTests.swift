import DataProtection
import Foundation
import Testing

@testable import protectfs

@Suite("Text: quoting, JSON, lengths of time, ranges, the progress bar")
struct TextTests {
    @Test(
        "Paths are quoted as a shell reads them back",
        arguments: [
            ("plain", "'plain'"), ("two words", "'two words'"), ("it's", "'it'\\''s'"), ("ünïcode", "'ünïcode'"),
            ("a\nb", "$'a\\nb'"), ("a\u{1B}[31m'", "$'a\\x1b[31m\\''"), ("a\u{202E}b", "$'a\\xe2\\x80\\xaeb'"),
            ("a\u{9B}", "$'a\\xc2\\x9b'"), ("a\u{61C}b", "$'a\\xd8\\x9cb'"),
        ])
    func quotes(text: String, expected: String) { #expect(quoted(text) == expected) }

    @Test("bash reads every quoted name back")
    func quotesInBash() throws {
        let names = ["a b", "it's", "a\nb", "\u{1B}", "\\", "$HOME", "a\u{202E}'b\\", "*"]
        let sandbox = try CommandSandbox(makesKeybag: false)
        let script = "printf '%s\\0' " + names.map { quoted($0) }.joined(separator: " ")
        let done = try sandbox.shell("exec bash -c \"$0\"", [script])
        #expect(done.text == names.map { $0 + "\0" }.joined())
    }

    @Test("JSON is read back by another reader")
    func json() throws {
        let texts = ["", "\"\\/", "\u{0}\u{1}\n\t\r", "\u{7F}\u{9B}\u{202E}\u{61C}", "ünï𝄞"]
        let value = JSON.object([
            ("texts", .array(texts.map { .string($0) })), ("none", .null), ("yes", .bool(true)),
            ("number", .number(.min)), ("empty", .array([])), ("nothing", .object([])),
        ])
        let read = try JSONSerialization.jsonObject(with: Data(value.encoded.utf8)) as? [String: Any]
        #expect(read?["texts"] as? [String] == texts)
        #expect(read?["number"] as? Int64 == .min)
        #expect(value.encoded.unicodeScalars.allSatisfy { ![0x9B, 0x202E, 0x61C].contains($0.value) })
        let directions = (0...0xFFFF).compactMap { Unicode.Scalar($0) }.filter { $0.properties.isBidiControl }
        #expect(directions.count == 12 && directions.allSatisfy { hasUnprintable(Array(String($0).utf8)) })
    }

    @Test("A name that is not UTF-8 comes in Base64 too", arguments: 0...5)
    func base64(count: Int) {
        let bytes = (0..<count).map { UInt8(200 + $0) }
        #expect(Base64.encode(bytes) == Data(bytes).base64EncodedString())
    }

    @Test(
        "Lengths of time",
        arguments: [
            ("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("0", nil), ("", nil), ("h", nil),
            ("-1", nil), ("1.5h", nil), ("99999d", nil), ("2 h", nil), ("+5", nil),
        ] as [(String, UInt32?)])
    func durations(text: String, seconds: UInt32?) { #expect(DurationArgument(argument: text)?.seconds == seconds) }

    @Test(
        "Ranges of a file of 10 bytes",
        arguments: [
            ("0-0", 0..<1), ("2-5", 2..<6), ("2-", 2..<10), ("-3", 7..<10), ("-30", 0..<10), ("0-99", 0..<10),
            ("10-", 10..<10), ("50-60", 10..<10), ("-0", 10..<10), ("0-9223372036854775807", 0..<10),
        ] as [(String, Range<Int64>)])
    func ranges(text: String, expected: Range<Int64>) {
        #expect(ByteRange(argument: text)?.bytes(ofFileWithSize: 10) == expected)
    }

    @Test("A malformed range is refused", arguments: ["", "-", "5", "5-2", "a-b", "1-2-3", "--1", "1--2"])
    func noRanges(text: String) { #expect(ByteRange(argument: text) == nil) }

    @Test(
        "Seconds in words",
        arguments: [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (90_000, "1 d 1 h")])
    func seconds(seconds: Int, expected: String) { #expect(spoken(seconds: seconds) == expected) }

    @Test("One is one")
    func plurals() {
        #expect([0, 1, 2].map { spoken($0, "file") } == ["0 files", "1 file", "2 files"])
    }

    @Test("Help says what each class means")
    func classesInHelp() throws {
        let help = try CommandSandbox(makesKeybag: false).run("protect", "--help").text
        for protectionClass in ProtectionClass.allCases {
            let meaning = try #require(ProtectionClass.allValueDescriptions[protectionClass.shortName])
            #expect(help.contains("- \(meaning.prefix(20))"))
        }
    }

    @Test("A progress bar is as wide as it may be", arguments: [0, 1, 50, 100, 200] as [Int64])
    func progress(done: Int64) {
        var rate = ProgressRate(of: .bytes)
        let began = ContinuousClock.now
        rate.note(0, at: began)
        for (label, columns) in [("writing", 37), ("protecting", 57), ("unprotecting", 77)] {
            let lines = [100, 0].map { total in
                Progress.line(
                    label, done: done << 20, total: total << 20, rate, columns: columns, at: began + .seconds(2))
            }
            #expect(lines[0].count == columns && lines[1].count <= columns, "\(lines)")
        }
    }

    @Test("Behind it are the speed and the time left, where there is room")
    func speed() {
        var rates = [ProgressRate(of: .bytes), ProgressRate(of: .files)]
        let began = ContinuousClock.now
        func line(_ index: Int, _ columns: Int, after seconds: Double, total: Int64 = 12 << 20) -> String {
            Progress.line(
                "protecting", done: 4 << 20, total: total, rates[index], columns: columns, at: began + .seconds(seconds)
            )
        }
        for index in 0...1 {
            rates[index].note(0, at: began)
            #expect(line(index, 77, after: 0.5).hasSuffix("]  33 %"), "no speed yet")
        }
        #expect(line(0, 77, after: 2).hasSuffix("]  33 %  2.0 MiB/s  4 s left"))
        #expect(line(0, 77, after: 4).hasSuffix("  1.0 MiB/s  8 s left"), "it has stalled")
        #expect(line(1, 77, after: 2).hasSuffix("  2097152 files/s  4 s left"))
        #expect(line(0, 37, after: 2).hasSuffix("]  33 %"))
        #expect(line(0, 77, after: 2, total: 0) == "protecting 4 MiB  2.0 MiB/s")
    }
}
