import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

extension Head {
    /// The same head with new content, sealed. `text`: of an inline file.
    package func sealing(
        _ record: ContentRecord, text: UnsafeRawBufferPointer?, _ headKey: FileKeys.Kept
    ) throws(KeyError) -> Head {
        let content = try record.sealed(in: prefix, under: headKey.bytes)
        guard let text else { return replacing(content: content) }
        let inline = try InlineFile.seal(text, counter: record.counter, in: prefix, under: headKey.bytes)
        return replacing(content: content, inline: inline)
    }
}

extension Keybag {
    /// A new file key, wrapped, with the head of an empty file and the means to go on writing it.
    package func newHead(
        as protectionClass: ProtectionClass, layout: ChunkLayout, carrying verdict: OriginMark.Verdict?, path: FilePath
    ) throws(DataProtectionError) -> (head: Head, keys: HandleKeys) {
        let fileKey: FileKey
        let prefix: Prefix
        do throws(KeyError) {
            prefix = Prefix(fileID: try FileID.random(), layout: layout)
            fileKey = try FileKey.random()
        } catch {
            throw .cryptography(error)
        }
        let use = protectionClass == .complete ? client.begin() : nil
        defer { withExtendedLifetime(use) {} }
        let wrap = try wrap(
            fileKey, of: prefix.fileID, as: protectionClass, counter: 1, carrying: verdict, path: path, .create)
        let head: Head
        do throws(KeyError) { head = try Self.emptyHead(prefix, wrap, fileKey) } catch { throw .cryptography(error) }
        var keys = HandleKeys(keybag: self, path: path)
        try keys.hold(fileKey, of: head, use)
        return (head, keys)
    }

    private static func emptyHead(
        _ prefix: Prefix, _ wrap: WrapRecord, _ fileKey: borrowing FileKey
    ) throws(KeyError) -> Head {
        let headKey = FileKeys.Kept(try fileKey.headKey(of: prefix.fileID))
        let record = ContentRecord(inline: 0, counter: 0, sealCount: 2)
        let content = try record.sealed(in: prefix, under: headKey.bytes)
        let inline = try InlineFile.seal(
            UnsafeRawBufferPointer(start: nil, count: 0), counter: 0, in: prefix, under: headKey.bytes)
        return Head(
            prefix: prefix, wrap: wrap, wrapBytes: try wrap.sealed(in: prefix, under: headKey.bytes),
            content: content, inline: inline)
    }
}
