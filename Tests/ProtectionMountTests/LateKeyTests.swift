import DataProtection
import DataProtectionTesting
import Foundation
import Testing

@testable import ProtectionMount

/// The key by which a file keeps pages that come after a lock.
@Suite struct LateKeyTests {
    private let temporary: TemporaryKeybag
    private let writers: Writers

    init() throws {
        temporary = try TemporaryKeybag()
        writers = try Writers(temporary.keybag, nil)
    }

    private func open(_ name: String, _ options: Data.WritingOptions) throws -> WrittenFile {
        let path = temporary.directory.appending(name)
        let file = URL(fileURLWithPath: path.string)
        try Data([1, 2, 3]).write(to: file, options: options, protectedBy: temporary.keybag)
        return try writers.enter(name == "a" ? 2 : 3) { _ throws(DataProtectionError) in
            try ProtectedFile.open(path, .readWrite, keybag: temporary.keybag)
        }
    }

    @Test("It is there once the file was read, and gone when a lock has taken the pages; other classes keep it")
    func life() throws {
        let (complete, other) = (try open("a", .completeFileProtection), try open("b", .noFileProtection))
        for file in [complete, other] {
            #expect(!file.canKeepPages)
            try file.mergeLatePages()
            #expect(file.canKeepPages)
        }
        for isLocked in [false, true] {
            if isLocked { try temporary.keybag.lock() }
            writers.forgetKeysOfPages()
            #expect(!complete.canKeepPages && other.canKeepPages)
            if !isLocked {
                try complete.mergeLatePages()
                #expect(complete.canKeepPages)
            }
        }
        #expect(throws: Errno(rawValue: ENOKEY)) { try [1].withUnsafeBytes { try complete.keep(page: $0, at: 0) } }
        try temporary.unlock()
        try complete.mergeLatePages()
        #expect(complete.canKeepPages)
        for file in [complete, other] { try writers.leave(file) }
    }
}
