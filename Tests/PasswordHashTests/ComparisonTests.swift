import Foundation
import Testing

@testable import PasswordHash

/// That times tell nothing is not measured. It is by construction: what is stored can be compared by one function only, which
/// always looks at 32 bytes by CRYPTO_memcmp(3). Here is shown that there is no other way.
@Suite("The only comparison there is")
struct ComparisonTests {
    @Test("Neither type has ==, so neither has contains, firstIndex(of:) or a place in a Set")
    func noEquality() {
        func isEquatable(_ type: Any.Type) -> Bool { type is any Equatable.Type }
        #expect(isEquatable(ClientKeyParameters.self))  // which are not secret
        #expect(!isEquatable(PasswordHash.self))
        #expect(!isEquatable(StoredVerifier.self))
        #expect(!isEquatable(StoredDigest.self))
    }

    /// Where `StoredDigest.swift` keeps its bytes no other file can reach them, and in it they meet others once.
    @Test("The stored bytes are private to one file, which compares them once, in constant time")
    func oneDoor() throws {
        let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Sources/PasswordHash")
        let files = try FileManager.default.contentsOfDirectory(atPath: sources.path).filter { $0.hasSuffix(".swift") }
        #expect(files.count > 8)
        for file in files {
            let text = try String(contentsOf: sources.appendingPathComponent(file), encoding: .utf8)
            let code = text.split(separator: "\n").map {
                $0.prefix(upTo: $0.firstRange(of: "//")?.lowerBound ?? $0.endIndex)
            }
            func lines(_ needle: String) -> Int { code.count { $0.contains(needle) } }
            let isDoor = file == "StoredDigest.swift"
            #expect(lines("areEqualInConstantTime(") == (isDoor ? 1 : 0), "\(file)")
            for other in ["memcmp", "elementsEqual", "Equatable", "lexicographicallyPrecedes", "static func =="] {
                #expect(lines(other) == 0, "\(file): \(other)")
            }
            // Operators compare lengths and single characters of the stored string, nothing else.
            let operators = code.filter { $0.contains("==") || $0.contains("!=") || $0.contains("~=") }
            let harmless = operators.filter {
                $0.contains(".count == ") || $0.contains("guard length == StoredDigest.length")
                    || $0.contains("!= UInt8(ascii: ")
                    || $0.contains("UInt8(ascii: \"0\")...")
            }
            #expect(operators == harmless, "\(file)")
            if isDoor { #expect(lines("private let bytes: [UInt8]") == 1) }
        }
    }
}
