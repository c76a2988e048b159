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

/// The head of an empty file that is not there yet, with a new file key.
package struct NewHead {
    package let head: Head
    /// How the rest of the file is written.
    package let keys: HandleKeys
    /// The keys of this operation, for the first MiB: the ring is then read once to make a file and write it. Code that has the bytes
    /// takes them; code that waits for bytes must not keep them.
    package var firstKeys: FileKeys?

    /// Makes the file key and wraps it.
    ///
    /// - Throws: `locked` when the class key is not here.
    package init(
        as protectionClass: ProtectionClass, layout: ChunkLayout, _ keybag: Keybag,
        carrying verdict: OriginMark.Verdict? = nil, path: FilePath
    ) throws(DataProtectionError) {
        let fileKey: FileKey
        let prefix: Prefix
        do throws(KeyError) {
            prefix = Prefix(fileID: try FileID.random(), layout: layout)
            fileKey = try FileKey.random()
        } catch {
            throw .cryptography(error)
        }
        var session = KeySession(keybag)
        let wrap = try session.wrap(
            fileKey, of: prefix.fileID, as: protectionClass, counter: 1, carrying: verdict, path: path, .create)
        do throws(KeyError) { head = try Self.emptyHead(prefix, wrap, fileKey) } catch { throw .cryptography(error) }
        var keys = HandleKeys(keybag: keybag, path: path)
        firstKeys = try keys.hold(fileKey, of: head, &session)
        self.keys = keys
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
