import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import SystemPackage

/// How often work on a note was begun and not ended, because the process died: the file `N.tries` beside note `N`. FORMAT.md §2.8.
///
/// Without it, a note that makes its worker crash would stop all work behind it at every unlock. The count is not flushed: it has to
/// survive a crash of the process, not of the machine. Change it only while holding the note.
package struct QueueTries {
    /// After so many the note is left alone. A few more than the kills that a user or a shutdown may send by chance.
    private static let most = 5

    private let path: FilePath

    package init(_ number: UInt64, in keybag: FilePath) {
        path = keybag.appending(QueueNote.directoryName).appending("\(number).tries")
    }

    /// Whether somebody is at it, or has died over it. May be asked without the note.
    var haveBegun: Bool { (try? LowerFile(regular: path, flags: O_RDONLY | O_NOFOLLOW)) != nil }

    /// Counts one more, where that can be written down: a full disk does not keep the work from being done.
    ///
    /// - Throws: `setAside` if there were too many already.
    package func begin() throws(DataProtectionError) {
        let bytes = (try? LowerFile(regular: path, flags: O_RDONLY | O_NOFOLLOW).bytes(at: 0, count: 8)) ?? []
        let count = Int(String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)) ?? 0
        guard count < Self.most else { throw .because(TreeFailure.setAside(path)) }
        try? LowerFile(path, flags: O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK)
            .write(Array("\(max(count, 0) + 1)\n".utf8), at: 0)
    }

    /// The work ended, whatever came of it.
    package func end() { try? AtomicReplace.remove(path) }
}
