import Foundation
import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// A keybag and a directory for files of a test's own.
final class FileTestBed: Sendable {
    let bag: TestKeybag
    let directory: FilePath
    var keybag: Keybag { bag.keybag }

    /// - Parameter parent: where keybag and files are; nil: where temporary files are.
    init(state: ProtectionState = .unlocked, in parent: FilePath? = nil) throws {
        bag = try TestKeybag(state: state, in: parent)
        directory = bag.scratchPath.appending("files")
        try FileManager.default.createDirectory(atPath: directory.string, withIntermediateDirectories: false)
    }

    /// A name in the directory.
    func path(_ name: String) -> FilePath { directory.appending(name) }

    /// The names in the directory, hidden ones included.
    func names() throws -> [String] { try directory.names() }

    /// Brings the keybag into a state from any other one.
    func enter(_ state: ProtectionState) throws {
        switch state {
        case .unlocked: try bag.unlock()
        case .locked:
            try bag.unlock()
            try keybag.lock()
        case .beforeFirstUnlock: try keybag.evictEverything()
        }
    }

    /// Keeps processes from saying that they have files open: nobody notices when that fails, and its calls would be counted
    /// among those that are to fail.
    func silenceClients() throws {
        let run = RunDirectory(of: keybag.directory)
        // Who listens in this process makes it again.
        var isSilent = false
        while !isSilent {
            try? run.path.remove()
            isSilent = (try? run.path.overwrite([])) != nil
        }
    }

    /// Makes a file through a handle: 4 KiB chunks.
    @discardableResult
    func make(_ name: String, _ protectionClass: ProtectionClass, _ bytes: [UInt8] = []) throws -> FilePath {
        let file = try ProtectedFile.open(path(name), .readWrite, create: protectionClass, keybag: keybag)
        if !bytes.isEmpty { try file.write(bytes, at: 0) }
        try file.close()
        return path(name)
    }

    /// Makes a file whole, generation 1: 64 KiB chunks unless `isSmall`.
    @discardableResult
    func makeWhole(
        _ name: String, _ protectionClass: ProtectionClass, _ bytes: [UInt8], isSmall: Bool = false
    ) throws -> FilePath {
        let writer = try ProtectedFileWriter(
            path(name), as: protectionClass, promising: nil, keybag: keybag, replacing: true,
            expecting: isSmall ? 0 : nil)
        try bytes.withUnsafeBytes { try writer.append($0) }
        try writer.finish()
        return path(name)
    }

    /// Makes a plaintext file.
    @discardableResult
    func makePlain(_ name: String, _ bytes: [UInt8]) throws -> FilePath {
        try path(name).overwrite(bytes)
        return path(name)
    }

    /// Changes the class that both heads name, and nothing else, as anybody can who may write to the file.
    ///
    /// - Parameter breakingWrap: also changes the wrapped file key, which no class key opens then.
    func forgeClass(of path: FilePath, _ protectionClass: ProtectionClass, breakingWrap: Bool = false) throws {
        try forgeHeads(of: path) { head in
            head[64 + 8] = protectionClass.rawValue
            if breakingWrap { head[64 + 32] ^= 1 }
        }
    }

    /// The same with the generations of the class key and of the key behind the origin MAC, up to 255.
    func forgeGeneration(of path: FilePath, _ generation: UInt8) throws {
        try forgeHeads(of: path) { head in
            for start in [64 + 12, 64 + 136] { head.replaceSubrange(start..<start + 4, with: [generation, 0, 0, 0]) }
        }
    }

    /// Another keybag's UUID; a second time, its own again.
    func forgeKeybag(of path: FilePath) throws {
        try forgeHeads(of: path) { head in head[64 + 16] ^= 1 }
    }

    /// Another commitment to the file key; a second time, its own again.
    func forgeCommitment(of path: FilePath) throws {
        try forgeHeads(of: path) { head in head[64 + 104] ^= 1 }
    }

    private func forgeHeads(of path: FilePath, _ forge: (inout [UInt8]) -> Void) throws {
        let file = try LowerFile(path, flags: O_RDWR)
        for start: UInt64 in [0, 4096] {
            var head = try file.bytes(at: start, count: 4096)
            guard head.count == 4096, head.starts(with: Prefix.magic) else { continue }
            forge(&head)
            head.replaceSubrange(4064..., with: try Digest.sha256(Array(head[..<4064])))
            try file.write(head, at: start)
        }
    }

    /// Cuts a file that ``make(_:_:_:)`` has made to another size, and has both heads say that size, as anybody can who may write to the file.
    func forgeSize(of path: FilePath, _ size: UInt64) throws {
        let count = ChunkLayout.small.chunkCount(size: size)
        try forgeHeads(of: path) { head in
            for (index, field) in [size, count].enumerated() {
                withUnsafeBytes(of: field.littleEndian) { bytes in
                    head.replaceSubrange(268 + 8 * (index + 1)..<268 + 8 * (index + 2), with: bytes)
                }
            }
        }
        let last = ChunkLayout.small.home(count - 1) + UInt64(ChunkLayout.small.plainLength(count - 1, size: size))
        try LowerFile(path, flags: O_RDWR).truncate(to: last + UInt64(ChunkLayout.overhead))
    }

    /// A file for class B, made by somebody who has read the keybag's public key and nothing else.
    func makePlanted(
        _ name: String, _ mark: OriginMark = .unverified, _ text: [UInt8] = [], _ fileID: FileID? = nil
    ) throws -> FilePath {
        let className = keybag.activeName(.completeUnlessOpen)
        let publicKey = try #require(try keybag.entry(of: className)?.publicHalf?.key)
        let prefix = Prefix(fileID: try fileID ?? FileID.random(), layout: .small)
        let fileKey = try FileKey.random()
        let headKey = try fileKey.headKey(of: prefix.fileID)
        let wrap = WrapRecord(
            counter: 1, classKey: className, wrapped: try publicKey.wrap(fileKey),
            commitment: try fileKey.commitment(of: prefix.fileID), origin: mark)
        let record = ContentRecord(inline: UInt64(text.count), counter: 0, sealCount: 1)
        let content = try record.sealed(in: prefix, under: headKey)
        let inline = try text.lendBytes { text throws(KeyError) in
            try InlineFile.seal(text, counter: 0, in: prefix, under: headKey)
        }
        let head = Head(
            prefix: prefix, wrap: wrap, wrapBytes: try wrap.sealed(in: prefix, under: headKey), content: content,
            inline: inline)
        return try makePlain(name, try head.encoded())
    }

    /// What proves that a file was made for that log. Whoever made it knows its key; here the class key opens it.
    func joinSeal(of path: FilePath, for log: FilePath) throws -> [UInt8] {
        let head = try HeadPair(of: LowerFile(path, flags: O_RDONLY)).head
        var session = KeySession(keybag)
        let fileKey = try session.fileKey(of: head, path: path, .open)
        return try JoinSeal.seal(
            log: log.bytes, in: head.prefix, under: try fileKey.headKey(of: head.prefix.fileID))
    }

    /// All of a file, through a handle opened for this.
    func read(_ path: FilePath) throws -> [UInt8] {
        let file = try ProtectedFile.open(path, keybag: keybag)
        return try file.bytes(at: 0, count: Int(try file.size()))
    }
}

extension FilePath {
    var url: URL { URL(fileURLWithPath: string) }
}

extension ProtectedFile {
    /// Up to `count` bytes from `offset`.
    func bytes(at offset: UInt64, count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let done = try bytes.withUnsafeMutableBytes { try read(into: $0, at: Int64(offset)) }
        return Array(bytes.prefix(done))
    }

    func write(_ bytes: [UInt8], at offset: UInt64) throws {
        try bytes.withUnsafeBytes { try write($0, at: Int64(offset)) }
    }

    /// Does what `step` says.
    func perform(_ step: FileStep) throws {
        switch step {
        case .write(let offset, let count, let seed): try write(pattern(seed, count: count), at: offset)
        case .append(let count, let seed): try write(pattern(seed, count: count), at: UInt64(try size()))
        case .truncate(let size): try truncate(to: Int64(size))
        case .sync: try sync()
        }
    }
}

/// The stored form of a file, judged without any key.
struct StoredFile {
    let length: UInt64
    let heads: HeadPair
    let state: FileState

    init(_ path: FilePath) throws {
        let file = try LowerFile(path, flags: O_RDONLY)
        length = try file.length()
        heads = try HeadPair(reading: file, isLocked: true)
        var state = FileState(heads)
        try state.scan(file, headKey: nil)
        self.state = state
    }

    /// The length that it has when it was cleanly closed.
    var extent: UInt64 { state.layout.extent(of: state.record, generation: heads.head.generation) }

    /// What FORMAT.md §4 rule 11 leaves behind: no area, both heads equal, no byte too many.
    func expectClosed(_ comment: @autoclosure () -> Comment? = nil, at location: SourceLocation = #_sourceLocation) {
        #expect(!state.hasArea, comment(), sourceLocation: location)
        #expect(heads.isMirrored, comment(), sourceLocation: location)
        #expect(length == extent, comment(), sourceLocation: location)
    }
}

extension FileTestBed {
    /// The notes of class changes that are being made, or were left by somebody who died; the directory may not be there yet.
    var notes: [String] { (try? DirectoryListing.names(of: keybag.directory.appending("changing"))) ?? [] }
}
