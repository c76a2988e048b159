import DurableFiles
import Glibc
import SystemPackage

/// Says that a finished file is about to get its name. No search for files under retired class keys finds it before that, so whoever wants to
/// delete those keys waits until the mark has gone. FORMAT.md §2.13.
///
/// It is a shared lock on one byte of `transition` for each generation of class keys, which a kill takes away too. Files that are begun after a
/// rotation mark another byte: however many there are, nobody waits for them.
package final class PublicationMark: Sendable {
    private let file: LowerFile

    /// The byte of generation 0, behind everything that the file holds.
    private static let first: off_t = 1 << 42

    /// - Returns: nil where the file cannot be locked. Then nobody can delete keys there either, as on a read-only medium; or somebody has
    ///   removed the file, and the next lock makes it again.
    package init?(ofKeybag keybag: FilePath, _ generation: UInt32) {
        guard let file = try? Self.file(keybag),
            (try? file.tryByteLock(Self.first + off_t(generation), .shared)) == true
        else { return nil }
        self.file = file
    }

    /// Whether there is one for an earlier generation.
    ///
    /// - Throws: `system` if that cannot be seen.
    static func isThere(ofKeybag keybag: FilePath, before generation: UInt32) throws(DataProtectionError) -> Bool {
        do throws(DataProtectionError) {
            let bytes = first..<first + off_t(generation)
            return try !file(keybag).bytesLockedElsewhere(in: bytes, atMost: 1).isEmpty
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return false
        }
    }

    private static func file(_ keybag: FilePath) throws(DataProtectionError) -> LowerFile {
        try LowerFile(keybag.appending(TransitionFile.name), flags: O_RDONLY | TransitionFile.flags)
    }
}
