import DurableFiles
import Foundation
import Glibc
import ProtectedFiles
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectedTrees

@Suite("A file that takes the place of another one is not weaker than it")
struct KeptClassTests {
    private let bed: FileTestBed
    private let path: FilePath

    init() throws {
        bed = try FileTestBed()
        path = try bed.make("f", .completeUntilFirstUserAuthentication, [1])
    }

    /// A writer that has the bytes 2 and 3, for the file that is there.
    private func begin(as protectionClass: ProtectionClass? = nil) throws -> ProtectedFileWriter {
        let writer = try ProtectedFileWriter(path, as: protectionClass, keybag: bed.keybag, replacing: true)
        try ([2, 3] as [UInt8]).withUnsafeBytes { try writer.append($0) }
        return writer
    }

    private var protectionClass: ProtectionClass { get throws { try ProtectedFileInfo(of: path).protectionClass } }

    @Test("A class that was raised while the new file was written is kept")
    func raisedMeanwhile() throws {
        let writer = try begin()
        try bed.keybag.setProtection(.complete, ofItemAt: path)
        try writer.finish()
        #expect(try protectionClass == .complete && writer.protectionClass == .complete)
        #expect(try bed.read(path) == [2, 3])
        #expect(try !StoredFile(path).heads.hasStaleWrap)
        #expect(bed.notes.isEmpty)
        try bed.keybag.lock()
        expectError("locked") { _ = try bed.read(path) }
    }

    @Test("If the key of the stronger class has gone, the old file stays")
    func locked() throws {
        let writer = try begin()
        try bed.keybag.setProtection(.complete, ofItemAt: path)
        try bed.keybag.lock()
        expectError("locked") { try writer.finish() }
        try bed.enter(.unlocked)
        #expect(try protectionClass == .complete)
        #expect(try bed.read(path) == [1])
        #expect(try bed.names() == ["f"])
    }

    @Test("A class that a person chose stays as it was chosen")
    func chosen() throws {
        let writer = try begin(as: .completeUntilFirstUserAuthentication)
        try bed.keybag.setProtection(.complete, ofItemAt: path)
        try writer.finish()
        #expect(try protectionClass == .completeUntilFirstUserAuthentication)
    }

    @Test("A class change that waits while the file is replaced changes the new file")
    func waiting() throws {
        let old = try LowerFile(path, flags: O_RDONLY)
        try old.lockSlot(.shared, waiting: 0)
        let done = DispatchSemaphore(value: 0)
        Thread.detachNewThread { [bed, path] in
            #expect(throws: Never.self) { try bed.keybag.setProtection(.complete, ofItemAt: path) }
            done.signal()
        }
        // It asks for the lock again and again, which nobody sees: long enough for it to have begun, and shorter than its patience.
        usleep(500_000)
        let new = try bed.make("new", .completeUntilFirstUserAuthentication, [2])
        #expect(rename(new.string, path.string) == 0)
        try old.close()
        done.wait()
        #expect(try protectionClass == .complete)
        #expect(try bed.read(path) == [2])
    }

    @Test("A restored file gets the class to which the file in its place was raised")
    func restored() throws {
        let beds = try BackupBed()
        try beds.bed.make("f", .completeUntilFirstUserAuthentication, [1])
        try beds.backUp()
        try beds.restore()
        let path = try beds.restored("f")
        try beds.restorer.keybag.setProtection(.complete, ofItemAt: path)
        let file = try ProtectedFile.open(path, .readWrite, keybag: beds.restorer.keybag)
        try file.write([2], at: 0)
        try file.close()
        #expect(try beds.restore(.replacing) == ["f": "copied"])
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
        #expect(try beds.text(path) == [1])
    }
}

extension FilePath {
    fileprivate func text() throws -> String { String(decoding: try contents(), as: UTF8.self) }
}
