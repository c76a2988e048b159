import Foundation
import Testing

/// Some checks are looser in the builds that `Tests/build` makes, which set PROTECTFS_TESTING. SwiftPM sets DEBUG in every debug build, also in
/// one of an application that uses the library.
@Suite("Differences between test builds and other builds")
struct TestBuildTests {
    @Test("No source asks for DEBUG, or for the level of optimization")
    func noDebug() throws {
        let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Sources")
        let names = try #require(FileManager.default.enumerator(atPath: sources.path))
        var (count, found) = (0, [String]())
        for case let name as String in names where name.hasSuffix(".swift") {
            let text = try String(contentsOf: sources.appendingPathComponent(name), encoding: .utf8)
            for line in text.split(separator: "\n") {
                let words = line.drop { $0 == " " }
                if words.hasPrefix("#if") || words.hasPrefix("#elseif") { count += 1 } else { continue }
                if words.contains("DEBUG") { found.append("\(name): \(words)") }
            }
            if text.contains("_isDebugAssertConfiguration") { found.append(name) }
        }
        #expect(count > 5, "conditions are found at all")
        #expect(found == [])
    }
}
