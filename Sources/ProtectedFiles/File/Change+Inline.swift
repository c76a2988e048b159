import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

/// Files that are small enough to lie in their head: each change seals them anew for the next content counter.
extension Change {
    mutating func resizeInline(to size: UInt64) throws(DataProtectionError) {
        let old = try inlineText()
        guard size != UInt64(old.count) else { return }
        let new = WipedBuffer(count: Int(size))
        old.withBytes { new.bytes.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0.prefix(new.count))) }
        try sealInline(new)
    }

    mutating func writeInline(_ part: UnsafeRawBufferPointer, at offset: Int) throws(DataProtectionError) {
        let old = try inlineText()
        let new = WipedBuffer(count: max(old.count, offset + part.count))
        old.withBytes { new.bytes.copyMemory(from: $0) }
        UnsafeMutableRawBufferPointer(rebasing: new.bytes[offset..<offset + part.count]).copyMemory(from: part)
        try sealInline(new)
    }

    private mutating func sealInline(_ text: WipedBuffer) throws(DataProtectionError) {
        do throws(KeyError) {
            let bytes = UnsafeRawBufferPointer(rebasing: text.bytes[..<text.count])
            let sealed = try InlineFile.seal(
                bytes, counter: state.record.counter + 1, in: state.heads.head.prefix, under: keys.head().bytes)
            writer.sealCount += 1
            pending.form = .inline(sealed)
            pending.size = UInt64(text.count)
        } catch {
            throw .cryptography(error)
        }
    }

    /// An inline file becomes chunk 0 of a chunked one.
    mutating func leaveHead() throws(DataProtectionError) {
        let text = try inlineText()
        pending.form = .chunked
        if text.count > 0 { try seal(0, text) }
    }

    private func inlineText() throws(DataProtectionError) -> WipedBuffer {
        do throws(Trouble) { return try view.inlineText(keys) } catch { throw error.reported }
    }
}
