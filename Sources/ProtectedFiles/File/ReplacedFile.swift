import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// A file that is about to lose its name to another one, whatever is in that. Bytes at its end that are nobody's to discard go into a file
/// beside it first.
///
/// All that replaces a file goes this way. A file that cannot be read is not replaced: nobody knows what it ends in.
package struct ReplacedFile {
    package let file: LowerFile
    /// Keeps everybody from changing the class. Its own description of the file, because readers give back the lock of theirs.
    private var classLock: LowerFile?

    /// A file that nobody writes to.
    package init(_ file: LowerFile) { self.file = file }

    /// Opens what has that name. Nobody becomes its writer while this value is there: keep it until the other file has the name.
    ///
    /// - Returns: nil if nothing has the name, or a link or something else that is no regular file: nothing of it can be saved.
    /// - Throws: `busy` while somebody writes to it; `system` if it cannot be read.
    package init?(_ entry: DirectoryEntry) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            file = try entry.directory.file(entry.name, flags: O_RDONLY, path: entry.path)
        } catch {
            if error.errno == .noSuchFileOrDirectory { return nil }
            if case .notRegularFile = error { return nil }
            throw error
        }
        guard try file.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(entry.path) }
    }

    /// Keeps everybody from changing the class of the file, as long as this value is there.
    ///
    /// - Throws: `busy` if a change takes five seconds; `system`.
    package mutating func holdClass() throws(DataProtectionError) {
        let lock = LowerFile(
            path: file.path,
            descriptor: try retrying(file.path, "open") {
                file.descriptorPath.withPlatformString { Glibc.open($0, O_RDONLY | O_CLOEXEC) }
            })
        try lock.lockSlot(.shared, waiting: LowerFile.patience)
        classLock = lock
    }

    /// The class that the file says it has, unverified; nil if it is not protected.
    ///
    /// - Throws: `damaged`, `unsupported`, `system`.
    package func claimedClass() throws(DataProtectionError) -> ProtectionClass? {
        do throws(DataProtectionError) {
            return try ProtectedFileInfo.state(of: file).heads.head.wrap.classKey.protectionClass
        } catch {
            switch error {
            case .notProtected, .because(FileFailure.mangled): return nil
            default: throw error
            }
        }
    }

    /// Bytes that no writer of ours has left there, or of which that cannot be told.
    private enum Foreign {
        /// From there on, as in ``FileTail``.
        case appended(from: UInt64)
        /// Anywhere: the file cannot be judged, and ends in text.
        case anywhere
        /// From there on, and in the heads: later commits, to which a damaged head no longer leads.
        case hidden(from: UInt64)
    }

    /// Saves what was appended to the file beside it, in every lock state.
    ///
    /// - Parameters:
    ///   - keybag: its keys tell chunks that a dead writer left from other bytes; nil: none are asked for.
    ///   - copy: a file that may have those bytes behind its own end. They are not saved then.
    ///   - place: asked beside which entry they are to be saved; nil: beside the file.
    /// - Returns: what the user should know: where the bytes are. Nil: there were none.
    /// - Throws: `system` if the file cannot be read, or its bytes cannot be saved: it must stay then.
    package func keepAppendedBytes(
        _ keybag: Keybag?, unlessIn copy: LowerFile? = nil,
        beside place: () throws(DataProtectionError) -> DirectoryEntry? = { () throws(DataProtectionError) in nil }
    ) throws(DataProtectionError) -> ProtectionWarning? {
        let length = try file.length()
        switch try foreign(keybag, length) {
        case .appended(let start):
            if let copy, try ReplacedFile(copy).hasAppended(keybag, sameAs: file, start..<length) { return nil }
            let kept = try KeptBeside.save(file, as: "appended", [start..<length], movedBy: start, beside: place())
            return kept.map { .appendedBytesSaved(file.path, byteCount: length - start, in: $0) }
        case .anywhere:
            let kept = try KeptBeside.save(file, as: "remains", [0..<length], movedBy: 0, beside: place())
            return kept.map { .remainsSaved(file.path, in: $0) }
        case .hidden(let start):
            let kept = try KeptBeside.remains(file, from: start, to: length, beside: place())
            return kept.map { .remainsSaved(file.path, in: $0) }
        case nil: return nil
        }
    }

    private func foreign(_ keybag: Keybag?, _ length: UInt64) throws(DataProtectionError) -> Foreign? {
        let found: FileState
        do throws(DataProtectionError) { found = try ProtectedFileInfo.state(of: file) } catch {
            switch error {
            case .notProtected: return nil  // an unprotected file is replaced as a whole
            case .damaged, .because(FileFailure.mangled), .unsupported: return try file.endsInText() ? .anywhere : nil
            default: throw error
            }
        }
        let damaged = try withKeys { () throws(KeyError) in try found.heads.damagedSlot() }
        if damaged == .mayBeNewer { return .hidden(from: found.extent) }
        guard length > found.extent else { return nil }
        let open = keybag.map { OpenFile(file, keybag: $0, isWritable: false) }
        // Without a key, what may be a chunk that a dead writer left is saved: nothing shows that it is one.
        let opened = try? open?.operateLocked(.open) { view, keys throws(Trouble) in (view.state, keys) }
        return try FileTail(of: opened?.0 ?? found, in: file, length: length, opened?.1).foreign.map {
            .appended(from: $0)
        }
    }

    /// In bytes: as much is compared. Longer ones are saved without a look.
    private static let longestCompared = 64 << 20

    /// Whether this file has the bytes of another one in that range behind its own end, perhaps with more behind them.
    private func hasAppended(
        _ keybag: Keybag?, sameAs other: LowerFile, _ range: Range<UInt64>
    ) throws(DataProtectionError) -> Bool {
        let length = try file.length()
        guard range.count <= Self.longestCompared, case .appended(let start)? = try foreign(keybag, length),
            range.count <= length - start
        else { return false }
        var done: UInt64 = 0
        while done < range.count {
            let count = Int(min(UInt64(range.count) - done, UInt64(OpenFile.segment)))
            let bytes = try file.bytes(at: start + done, count: count)
            guard bytes.count == count, try bytes == other.bytes(at: range.lowerBound + done, count: count) else {
                return false
            }
            done += UInt64(count)
        }
        return true
    }
}

extension LowerFile {
    /// Whether the last 16 bytes of the file are text: sealed bytes are text in one of millions of cases.
    fileprivate func endsInText() throws(DataProtectionError) -> Bool {
        let count = 16
        let length = try length()
        guard length >= UInt64(count) else { return false }
        // The first character may be cut.
        let bytes = try bytes(at: length - UInt64(count), count: count)
        let text = bytes.drop { $0 & 0xC0 == 0x80 }
        guard text.count > count - 4, let decoded = String(validating: text, as: UTF8.self) else { return false }
        return decoded.unicodeScalars.allSatisfy {
            $0.value >= 0x20 && $0.value != 0x7F || "\t\n\r".unicodeScalars.contains($0)
        }
    }
}

extension ReplacedFile {
    /// Holds what is about to lose its name to another file, if anything is, and saves what was appended to it, with a warning.
    ///
    /// - Returns: to be kept until the other file has the name.
    /// - Throws: as ``init(_:)-(DirectoryEntry)``; then nothing was changed.
    package static func hold(_ entry: DirectoryEntry, _ keybag: Keybag) throws(DataProtectionError) -> ReplacedFile? {
        guard let replaced = try ReplacedFile(entry) else { return nil }
        try replaced.saveAppendedBytes(keybag)
        return replaced
    }

    /// Saves what was appended to it, with a warning.
    package func saveAppendedBytes(_ keybag: Keybag) throws(DataProtectionError) {
        if let saved = try keepAppendedBytes(keybag) { keybag.warn(saved) }
    }
}
