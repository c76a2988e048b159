import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
public import SystemPackage

extension ProtectedFile {
    /// Copies a protected file as it is stored: for backups, in every lock state. No key is needed or touched.
    ///
    /// - Returns: nil, or a warning: another program had appended bytes to the file that was replaced, and they are saved beside it.
    /// - Throws: `busy` while somebody is writing to either file, `exists`, `notProtected`; `system`, also if what is to be replaced cannot be
    ///   read, or what was appended to it cannot be saved. Nothing is replaced then.
    @discardableResult
    public static func copyCiphertext(
        from source: FilePath, to target: FilePath, replacing: Bool = false
    ) throws(DataProtectionError) -> ProtectionWarning? {
        let file = try LowerFile(source, flags: O_RDONLY | O_NONBLOCK)
        try file.requireRegular()
        try file.requireOneOfOurs()
        guard try file.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(source) }
        let copy = try UnnamedFile(target)
        let replaced = replacing ? try ReplacedFile(copy.entry) : nil
        defer { withExtendedLifetime(replaced) {} }
        try file.withByteLock(OpenFile.slotLock, .shared) { () throws(DataProtectionError) in
            try copyBytes(from: file, to: copy.file)
        }
        try FileAttributes.inherit(from: file, to: copy.file)
        try copy.file.flushAll()
        let saved = try replaced?.keepAppendedBytes(nil)
        try copy.publish(replacing: replacing)
        return saved
    }

    /// Copies the stored bytes while somebody may be writing: what comes out is what a kill of the writer at some moment of this
    /// call would leave, that is, everything that a sync has acknowledged before.
    ///
    /// Without this, a file that is always open, such as a log, would be *busy* in every backup.
    ///
    /// The bytes between two commits are good: chunks are only written where no committed byte is, and a record that is
    /// half there is none (FORMAT.md §4). So both heads must be the same before and after; under the slot lock nobody commits.
    package static func copyBetweenCommits(from source: LowerFile, to target: LowerFile) throws(DataProtectionError) {
        for _ in 0..<2 {
            let before = try source.bytes(at: 0, count: 2 * Head.length)
            try copyBytes(from: source, to: target)
            let isSame = try source.withByteLock(OpenFile.slotLock, .shared) { () throws(DataProtectionError) in
                try source.bytes(at: 0, count: 2 * Head.length) == before
            }
            if isSame { return }
            try target.truncate(to: 0)
        }
        try source.withByteLock(OpenFile.slotLock, .shared) { () throws(DataProtectionError) in
            try copyBytes(from: source, to: target)
        }
    }

    /// Copies all bytes, 64 KiB at a time. Holes are not read, and they and blocks of zeros are holes in the copy.
    package static func copyBytes(from source: LowerFile, to target: LowerFile) throws(DataProtectionError) {
        let length = try source.length()
        var offset: UInt64 = 0
        while offset < length, let data = try source.nextData(in: offset..<length) {
            let bytes = try source.bytes(
                at: data.lowerBound, count: Int(min(data.upperBound - data.lowerBound, 64 * 1024)))
            if bytes.isEmpty { break }
            if bytes.contains(where: { $0 != 0 }) { try target.write(bytes, at: data.lowerBound) }
            offset = data.lowerBound + UInt64(bytes.count)
        }
        try target.truncate(to: length)
    }
}
