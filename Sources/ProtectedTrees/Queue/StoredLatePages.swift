import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Kept pages, as they are read.
struct StoredLatePages {
    private let data: LowerFile
    private let pages: LatePages
    private let key: LatePagesKey

    var counter: UInt64 { pages.counter }

    /// - Throws: as ``ProtectedFile/read(into:at:)``; `damaged`.
    init(_ data: LowerFile, of file: ProtectedFile) throws(DataProtectionError) {
        self.data = data
        let start = try data.bytes(at: 0, count: LatePages.headerLength)
        guard start.count == LatePages.headerLength else { throw Self.damaged(data) }
        key = try file.latePagesKey(salt: Array(start[8..<24]))
        guard let pages = LatePages(of: key.prefix, decoding: start) else { throw Self.damaged(data) }
        self.pages = pages
    }

    private static func damaged(_ data: LowerFile) -> DataProtectionError {
        .damaged(data.path, .latePages, reason: "they do not open", offset: nil)
    }

    /// Lends each page, in the order in which the kernel has delivered them, up to one that does not open: a power cut leaves of pages that
    /// were not flushed what it likes.
    ///
    /// - Returns: whether nothing follows but zeros, or a page that is not whole: no flush has been answered after those.
    @discardableResult
    func lendEach(
        _ body: (UnsafeRawBufferPointer, UInt64) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) -> Bool {
        let length = try data.length()
        let text = WipedBuffer(count: LatePages.longest)
        var place = UInt64(LatePages.headerLength)
        var number: UInt64 = 0
        while true {
            let start = try data.bytes(at: place, count: LatePages.recordHeaderLength)
            guard start.count == LatePages.recordHeaderLength else { return true }
            guard let record = LatePages.record(decoding: start) else { return try isZero(from: place, to: length) }
            let sealedCount = record.count + ChunkLayout.overhead
            let end = place + UInt64(LatePages.recordHeaderLength + sealedCount)
            guard end <= length else { return true }
            let sealed = try data.bytes(at: place + UInt64(LatePages.recordHeaderLength), count: sealedCount)
            do throws(KeyError) {
                try pages.open(
                    sealed, of: record, number: number, under: key.secret.bytes, into: text.prefix(record.count))
            } catch .authenticationFailed {
                return false
            } catch {
                throw .cryptography(error)
            }
            try body(UnsafeRawBufferPointer(text.prefix(record.count)), record.offset)
            (place, number) = (end, number + 1)
        }
    }

    private func isZero(from start: UInt64, to end: UInt64) throws(DataProtectionError) -> Bool {
        // Somebody may have made it terabytes long.
        guard end - start <= 64 << 20 else { return false }
        var place = start
        while place < end {
            let bytes = try data.bytes(at: place, count: Int(min(end - place, UInt64(LatePages.longest))))
            guard !bytes.isEmpty, bytes.allSatisfy({ $0 == 0 }) else { return bytes.isEmpty }
            place += UInt64(bytes.count)
        }
        return true
    }

    /// - Returns: as ``lendEach(_:)``.
    func write(to file: ProtectedFile) throws(DataProtectionError) -> Bool {
        let size = UInt64(try file.size())
        return try lendEach { bytes, offset throws(DataProtectionError) in
            let count = Int(min(UInt64(bytes.count), size - min(offset, size)))
            if count > 0 { try file.write(UnsafeRawBufferPointer(rebasing: bytes.prefix(count)), at: Int64(offset)) }
        }
    }

    /// Whether the file has all of these bytes, or those that came after them at the same places.
    func areThere(in file: ProtectedFile) throws(DataProtectionError) -> Bool {
        let size = UInt64(try file.size())
        let buffer = WipedBuffer(count: LatePages.longest)
        var areThere = true
        try lendEach { bytes, offset throws(DataProtectionError) in
            let count = Int(min(UInt64(bytes.count), size - min(offset, size)))
            guard areThere, count > 0 else { return }
            let read = try file.read(into: buffer.prefix(count), at: Int64(offset))
            areThere = read == count && memcmp(buffer.bytes.baseAddress!, bytes.baseAddress!, count) == 0
        }
        return areThere
    }
}
