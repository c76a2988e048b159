import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// A protected file whose bytes are all known before it is written: first on the disk, then under its name. In between, the caller can note what it
/// needs to.
package struct WholeFile {
    private let new: NewFile

    /// Writes and flushes it. It has no name: should the process die, it was never there.
    ///
    /// - Throws: `locked` when the class key is not here; `system`.
    package init(
        _ bytes: UnsafeRawBufferPointer, for path: FilePath, as protectionClass: ProtectionClass, keybag: Keybag
    ) throws(DataProtectionError) {
        let entry = try DirectoryEntry(path)
        let layout = ChunkLayout.forWholeFile(of: UInt64(bytes.count))
        var made = try NewHead(as: protectionClass, layout: layout, keybag, path: entry.path)
        new = try NewFile(entry, made.head, made.keys)
        try new.append(bytes, made.firstKeys.take())
        try new.finish()
        new.forgetKeys()
    }

    /// The 16 bytes that name it whatever it is called.
    package var fileID: [UInt8] { new.fileID.bytes }

    /// Gives it its name, and makes that last. What another program has appended to a file that is replaced is saved beside it.
    ///
    /// - Throws: `exists` if there is something under that name and `replacing` is false; `busy` while somebody writes to what is replaced, and
    ///   `system` if that cannot be read; `keyLost` if its class key was rotated and forgotten since it was written.
    package func publish(replacing: Bool) throws(DataProtectionError) {
        let replaced = replacing ? try ReplacedFile.hold(new.unnamed.entry, new.keybag) : nil
        defer { withExtendedLifetime(replaced) {} }
        try new.publish(replacing: replacing)
    }
}
