import Glibc
import ProtectionFormat
import SystemPackage

@testable import DataProtection

extension Keybag {
    /// Makes a file of class A, with the bytes 1, 2, 3, whose stale slot still holds the wrap under class key C, and the note of the change:
    /// what a process leaves that died between its two slots.
    func leaveChangeUnfinished(at path: FilePath) throws {
        let file = try ProtectedFile.open(
            path, .readWrite, create: .completeUntilFirstUserAuthentication, keybag: self)
        try file.write([1, 2, 3], at: 0)
        try file.close()
        let lower = try LowerFile(path, flags: O_RDWR)
        let old = try lower.bytes(at: 0, count: Head.length)
        try setProtection(.complete, ofItemAt: path)
        let note = try ClassChangeIntent(lower, in: directory, lasting: false)
        let heads = try HeadPair(of: lower)
        try lower.write(old, at: UInt64(heads.target * Head.length))
        withExtendedLifetime(note) {}
    }
}

extension FilePath {
    /// The wrap records in both slots of a protected file: two where a change of its class is unfinished.
    func wraps() throws -> Set<[UInt8]> {
        let file = try LowerFile(self, flags: O_RDONLY)
        return Set(
            try [0, 1].map {
                try Head(decoding: file.bytes(at: UInt64($0 * Head.length), count: Head.length)).wrapBytes
            })
    }
}
