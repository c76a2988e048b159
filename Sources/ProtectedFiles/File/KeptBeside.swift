import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Bytes of a protected file that a writer is about to overwrite or cut, and that are not its own to discard: they go into a file beside it.
///
/// Holes stay holes: a file that was made a tebibyte long with truncate(1) takes no place, and neither does what is kept of it.
/// It has the first free name of `NAME.appended-1`, `-2` …, or `NAME.remains-1` …, mode 0600, and never takes the place of anything.
///
/// A writer looks for such bytes at its first write, and before it makes the file longer or cuts it; a class change and a conversion
/// look too. They are appended bytes, and commits that a damaged head hides. If they cannot be saved, the writer fails and changes
/// nothing. Refusing to write in every case would be simpler, but after a crash a torn chunk cannot be told from appended bytes, and a
/// crash must not need a repair. Merging them into the file would give bytes of unknown origin the standing of authenticated ones.
package enum KeptBeside {
    /// Saves what lies behind the place where the file's own bytes end, as it is: it was never protected.
    ///
    /// - Returns: the new file; nil if the file has no name any more, so that nobody could get at those bytes either.
    package static func appended(
        _ file: LowerFile, from start: UInt64, to end: UInt64
    ) throws(DataProtectionError) -> FilePath? {
        try save(file, as: "appended", [start..<end], movedBy: start)
    }

    /// Saves all that lies behind `start`, and cuts it off. If the file has no name any more, the bytes go with it.
    ///
    /// The look at the length comes directly before the cut: saving takes a flush, and the other program may go on meanwhile. No system
    /// call does both. So what is appended in these microseconds is lost.
    /// - Throws: `busy` if the other program goes on and on; `system` if the bytes cannot be saved. Nothing was cut.
    package static func moveAppended(
        _ file: LowerFile, from start: UInt64, warn: (ProtectionWarning) -> Void
    ) throws(DataProtectionError) {
        var saved = start
        for _ in 0..<8 {
            let length = try file.length()
            guard length > saved else {
                if saved > start { try file.truncate(to: start) }
                return
            }
            if let kept = try appended(file, from: saved, to: length) {
                warn(.appendedBytesSaved(file.path, byteCount: length - saved, in: kept))
            }
            saved = length
        }
        throw .busy(file.path)
    }

    /// Saves both heads, and all that lies behind the end, each at its own offset: what is left of later commits.
    package static func remains(
        _ file: LowerFile, from start: UInt64, to end: UInt64, beside entry: DirectoryEntry? = nil
    ) throws(DataProtectionError) -> FilePath? {
        let heads = UInt64(2 * Head.length)
        return try save(
            file, as: "remains", [0..<min(heads, end), min(max(heads, start), end)..<end], movedBy: 0, beside: entry)
    }

    /// - Parameter entry: beside which the new file gets its name; nil: beside the file itself.
    package static func save(
        _ file: LowerFile, as mark: String, _ ranges: [Range<UInt64>], movedBy distance: UInt64,
        beside entry: DirectoryEntry? = nil
    ) throws(DataProtectionError) -> FilePath? {
        guard try file.status().st_nlink > 0 else { return nil }
        // Where the file is by now, and not by the links that may have led to it.
        let named = if let entry { entry } else { try DirectoryEntry(file.place()) }
        let kept = try UnnamedFile(named)
        for range in ranges {
            var place = range.lowerBound
            while place < range.upperBound, let data = try file.nextData(in: place..<range.upperBound) {
                let count = min(data.upperBound - data.lowerBound, UInt64(OpenFile.segment))
                let bytes = try file.bytes(at: data.lowerBound, count: Int(count))
                guard !bytes.isEmpty else { throw .busy(file.path) }  // somebody cuts it meanwhile
                try kept.file.write(bytes, at: data.lowerBound - distance)
                place = data.lowerBound + UInt64(bytes.count)
            }
        }
        // A hole at the end is one only as long as nobody cuts the file.
        let end = ranges.map(\.upperBound).max() ?? distance
        guard try file.length() >= end else { throw .busy(file.path) }
        try kept.file.truncate(to: end - distance)
        return try kept.publish(beside: mark)
    }
}

extension UnnamedFile {
    /// Gives the file the first free name of `NAME.MARK-1`, `NAME.MARK-2` …, where NAME is the one of ``entry``, and makes it last. Its owner
    /// alone may read it.
    ///
    /// - Returns: where it is.
    package func publish(beside mark: String) throws(DataProtectionError) -> FilePath {
        _ = try retrying(entry.path, "fchmod") { fchmod(file.descriptor, 0o600) }
        try file.flushAll()
        var number = 1
        while true {
            let other = DirectoryEntry(entry.name.followed(by: ".\(mark)-\(number)"), in: entry.directory)
            do throws(DataProtectionError) {
                try takeName(other)
                try hasName()
                return other.path
            } catch .exists {
                number += 1
            }
        }
    }
}

extension FileState {
    /// Saves beside the file what its next commits would overwrite or cut though no writer of ours can answer for it, and warns.
    ///
    /// Called under the slot lock, while nobody else writes.
    /// - Parameter cutting: whether saved bytes that were appended are cut off, so that they are saved once only.
    /// - Returns: where the bytes end that are known not to be another program's; bytes that came meanwhile lie behind.
    /// - Throws: `system` if they cannot be saved: nothing was changed.
    @discardableResult
    package func keepForeignBytes(
        of file: LowerFile, _ keys: FileKeys?, cutting: Bool, warn: (ProtectionWarning) -> Void
    ) throws(DataProtectionError) -> UInt64 {
        let length = try file.length()
        let damaged = try withKeys { () throws(KeyError) in try heads.damagedSlot() }
        guard damaged == .mayBeNewer || length > (hasRecords ? areaEnd : extent) else { return length }
        let tail = try FileTail(of: self, in: file, length: length, keys)
        if damaged == .mayBeNewer, let kept = try KeptBeside.remains(file, from: extent, to: length) {
            warn(.remainsSaved(file.path, in: kept))
        }
        guard let start = tail.foreign else { return length }
        if cutting {
            try KeptBeside.moveAppended(file, from: start, warn: warn)
        } else if let kept = try KeptBeside.appended(file, from: start, to: length) {
            warn(.appendedBytesSaved(file.path, byteCount: length - start, in: kept))
        }
        return start
    }
}

extension OpenFile {
    /// The same for a file that is about to be replaced by another one with its contents.
    package func keepForeignBytes(_ operation: AttemptedOperation) throws(DataProtectionError) {
        _ = try operateLocked(operation) { view, keys throws(Trouble) in
            try certainly { () throws(DataProtectionError) in
                try view.state.keepForeignBytes(of: file, keys, cutting: false, warn: keybag.warn)
            }
        }
    }
}
