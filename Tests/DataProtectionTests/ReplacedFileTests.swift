import Glibc
import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectedTrees

/// A protected file that another one takes the place of: what other programs appended to it is never lost.
@Suite("Files that are replaced")
struct ReplacedFileTests {
    private let bed: FileTestBed
    private let line = Array("a line of another program\n".utf8)
    private let text = pattern(1, count: 20_000)
    init() throws { bed = try FileTestBed() }

    private func append(to path: FilePath) throws { try path.overwrite(try path.contents() + line) }

    /// Everything that replaces a file, whatever is in it.
    enum Door: String, CaseIterable {
        case ciphertextCopy, publication, wholeFile, writer

        /// Replaces `path` by a file with the bytes 1, 2, 3.
        func replace(_ path: FilePath, _ bed: FileTestBed) throws {
            let new: [UInt8] = [1, 2, 3]
            switch self {
            case .ciphertextCopy:
                let source = try bed.makeWhole("new", .complete, new)
                defer { try? source.remove() }
                if let warning = try ProtectedFile.copyCiphertext(from: source, to: path, replacing: true) {
                    bed.keybag.warn(warning)
                }
            case .publication:
                let finished = try bed.makeWhole("new", .complete, new)
                defer { try? finished.remove() }
                try ProtectedFile.publish(finished, as: path, replacing: true, raiseTo: nil, keybag: bed.keybag)
            case .wholeFile:
                let whole = try new.withUnsafeBytes { new in
                    try WholeFile(new, for: path, as: .complete, keybag: bed.keybag)
                }
                try whole.publish(replacing: true)
            case .writer: try bed.makeWhole(path.lastComponent!.string, .complete, new)
            }
        }
    }

    @Test("An appended line is in a file beside the new one, and the user is told", arguments: Door.allCases)
    func appendedLine(_ door: Door) throws {
        let path = try bed.make("f", .complete, text)
        try append(to: path)
        try door.replace(path, bed)
        #expect(try bed.read(path) == [1, 2, 3])
        #expect(try bed.names() == ["f", "f.appended-1"])
        let kept = bed.path("f.appended-1")
        #expect(try kept.contents() == line && kept.mode() == 0o600)
        #expect(bed.bag.warnings.unusual == [.appendedBytesSaved(path, byteCount: UInt64(line.count), in: kept)])
        try door.replace(path, bed)
        #expect(try bed.names() == ["f", "f.appended-1"], "nothing was appended since")
    }

    @Test("While locked, a file that is published or copied is handled in the same way")
    func locked() throws {
        let new = try bed.makeWhole("new", .completeUnlessOpen, [1])
        for (number, door) in ["publication", "copy"].enumerated() {
            let path = try bed.make("f\(number)", .complete, text)
            try append(to: path)
            try bed.keybag.lock()
            if door == "copy" {
                try ProtectedFile.copyCiphertext(from: new, to: path, replacing: true)
            } else {
                let finished = bed.path("finished")
                try ProtectedFile.copyCiphertext(from: new, to: finished)
                try ProtectedFile.publish(finished, as: path, replacing: true, raiseTo: nil, keybag: bed.keybag)
            }
            #expect(try bed.path("f\(number).appended-1").contents() == line)
            try bed.enter(.unlocked)
            #expect(try bed.read(path) == [1])
        }
    }

    @Test("A file that cannot be read is not replaced: nobody knows what it ends in", arguments: Door.allCases)
    func unreadable(_ door: Door) throws {
        let path = try bed.make("f", .complete, text)
        try append(to: path)
        let stored = try path.contents()
        // Root can read whatever its mode is. Nobody can open a file without waiting while somebody has a lease of it.
        let lease = try Lease(path)
        expectError("busy") { try door.replace(path, bed) }
        lease.end()
        #expect(try path.contents() == stored)
        #expect(try bed.names() == ["f"])
        try door.replace(path, bed)
        #expect(try bed.names() == ["f", "f.appended-1"])
    }

    @Test("A file that somebody writes to is not replaced", arguments: Door.allCases)
    func busy(_ door: Door) throws {
        let path = try bed.make("f", .complete, text)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([9], at: 0)
        expectError("busy") { try door.replace(path, bed) }
        try file.close()
        #expect(try bed.read(path) == [9] + text.dropFirst())
    }

    @Test("A link is replaced, and its target stays as it is", arguments: Door.allCases.filter { $0 != .writer })
    func link(_ door: Door) throws {
        let other = try bed.make("other", .complete, text)
        try append(to: other)
        let stored = try other.contents()
        try bed.path("f").makeSymbolicLink(to: "other")
        try door.replace(bed.path("f"), bed)
        #expect(try bed.read(bed.path("f")) == [1, 2, 3])
        #expect(try other.contents() == stored)
        #expect(try bed.names() == ["f", "other"])
    }

    @Test("A file that got its name while its replacement was being written is looked at too")
    func since() throws {
        let path = bed.path("f")
        let writer = try ProtectedFileWriter(path, as: .complete, keybag: bed.keybag)
        try [UInt8]([1, 2, 3]).withUnsafeBytes { try writer.append($0) }
        try bed.make("f", .complete, text)
        try append(to: path)
        try writer.finish()
        #expect(try bed.path("f.appended-1").contents() == line)
        #expect(try bed.read(path) == [1, 2, 3])
    }

    @Test("A damaged file that ends in text has no known end, and is kept whole", arguments: Door.allCases)
    func damaged(_ door: Door) throws {
        let path = try bed.make("f", .complete, text)
        try append(to: path)
        var stored = try path.contents()
        for head in [0, Head.length] { stored[head + 100] ^= 1 }
        try path.overwrite(stored)
        if door == .writer {
            expectError("damaged", "its class cannot be inherited") { try door.replace(path, bed) }
            #expect(try path.contents() == stored)
            return
        }
        try door.replace(path, bed)
        #expect(try bed.path("f.remains-1").contents() == stored)
        #expect(try bed.read(path) == [1, 2, 3])
        #expect(bed.bag.warnings.unusual == [.remainsSaved(path, in: bed.path("f.remains-1"))])
    }

    @Test("Ordinary files and damaged ones that nothing was appended to are replaced as they were told to be")
    func nothingToSave() throws {
        for door in Door.allCases {
            let plain = try bed.makePlain("f", line)
            try door.replace(plain, bed)
            var stored = try bed.make("g", .complete, text).contents()
            for head in [0, Head.length] { stored[head + 100] ^= 1 }
            try bed.makePlain("g", stored)
            if door != .writer { try door.replace(bed.path("g"), bed) }
            #expect(try bed.names() == ["f", "g"], "\(door)")
            for name in ["f", "g"] { try bed.path(name).remove() }
        }
    }

    @Test("Bytes appended to a segment of a log are not lost when the segment has been joined")
    func segment() throws {
        try bed.log("1")
        try bed.keybag.lock()
        try bed.log("2")
        try append(to: bed.path("log.segment-1"))
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.text(bed.path("log")) == "1\n2\n")
        #expect(try bed.names() == ["log", "log.segment-1.appended-1"])
        #expect(try bed.path("log.segment-1.appended-1").contents() == line)
    }
}
