import Foundation
import Testing

@Suite("unprotect --salvage")
struct SalvageVerbTests {
    @Test("The parts that still open are in a new file; the rest is named, status 65; the damaged file stays")
    func salvage() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.protectedFile("file", Data(repeating: 5, count: 200_000))
        var stored = try sandbox.stored("file")
        let foreign = Data(repeating: UInt8(ascii: "x"), count: 4096)
        stored.replaceSubrange(8192 + 65_564..<8192 + 65_564 + 4096, with: foreign)
        try stored.write(to: URL(fileURLWithPath: sandbox.path("file")))
        let verified = try sandbox.run("verify", "file")
        #expect(verified.status == 65, "\(verified.errors)")
        #expect(
            verified.errors.contains("'file' was overwritten by another program: bytes 65536 to 131071"))
        let refused = try sandbox.run("unprotect", "file")
        #expect(
            refused.status == 65 && refused.errors.contains("protectfs unprotect --salvage 'file'"), "\(refused.errors)"
        )
        let done = try sandbox.run("unprotect", "--salvage", "file")
        #expect(
            done.status == 65 && done.errors.contains("'file': bytes 65536 to 131071 do not open"), "\(done.errors)")
        var expected = Data(repeating: 5, count: 200_000)
        expected.replaceSubrange(65_536..<131_072, with: Data(count: 65_536))
        #expect(try sandbox.stored("file.salvaged-1") == expected)
        #expect(try sandbox.stored("file") == stored)
        try sandbox.protectedFile("whole")
        #expect(try sandbox.run("unprotect", "--salvage", "whole").status == 0)
        #expect(try sandbox.stored("whole.salvaged-1") == Data("text\n".utf8))
        #expect(try sandbox.run("unprotect", "--salvage", "--recursive", "file").status == 64)
    }
}
