import DurableFiles
import Glibc
import SystemPackage

/// Marks a finished file that is about to get its name. A search for files under retired class keys cannot find the file before that, so
/// `rotate --forget` waits until the mark is gone. FORMAT.md §2.13.
///
/// The mark is a shared lock on one byte of `transition`, a byte for each generation of class keys. The kernel removes it when the process dies.
/// Files begun after a rotation mark another byte, so they keep nobody waiting.
package final class PublicationMark: Sendable {
    private let file: LowerFile

    /// The byte of generation 0, behind everything that the file holds.
    private static let first: off_t = 1 << 42

    /// - Returns: nil if `transition` cannot be locked: on a read-only medium, where no keys can be deleted either, or if somebody has removed
    ///   the file.
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
