import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

/// Files that are small enough to lie in their head: each change seals them anew for the next content counter.
extension OpenFile {
    package func resizeInline(to size: UInt64, _ keys: FileKeys) throws(Trouble) {
        let old = try inlineText(state!, keys)
        guard size != UInt64(old.count) else { return }
        let new = WipedBuffer(count: Int(size))
        old.withBytes { new.bytes.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0.prefix(new.count))) }
        try sealInline(new, keys)
    }

    package func writeInline(_ part: UnsafeRawBufferPointer, at offset: Int, _ keys: FileKeys) throws(Trouble) {
        let old = try inlineText(state!, keys)
        let new = WipedBuffer(count: max(old.count, offset + part.count))
        old.withBytes { new.bytes.copyMemory(from: $0) }
        UnsafeMutableRawBufferPointer(rebasing: new.bytes[offset..<offset + part.count]).copyMemory(from: part)
        try sealInline(new, keys)
    }

    private func sealInline(_ text: WipedBuffer, _ keys: FileKeys) throws(Trouble) {
        let counter = state!.record.counter + 1
        let prefix = state!.heads.head.prefix
        do throws(KeyError) {
            let bytes = UnsafeRawBufferPointer(rebasing: text.bytes[..<text.count])
            let sealed = try InlineFile.seal(bytes, counter: counter, in: prefix, under: keys.head().bytes)
            writer!.sealCount += 1
            writer!.pending!.form = .inline(sealed)
            writer!.pending!.size = UInt64(text.count)
        } catch {
            throw .certain(.cryptography(error))
        }
    }

    /// An inline file becomes chunk 0 of a chunked one.
    package func leaveHead(_ keys: FileKeys) throws(Trouble) {
        let text = try inlineText(state!, keys)
        writer!.pending!.form = .chunked
        if text.count > 0 { try seal(0, text, keys) }
    }
}
