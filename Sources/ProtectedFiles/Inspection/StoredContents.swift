import DurableFiles
import Glibc
import ProtectionFormat
import SystemPackage

/// What is in a protected file, as its heads name it: the same after a rotation or a change of class, and another one after each write. Nothing is
/// authenticated.
package struct StoredContents: Equatable, Sendable {
    private let prefix: Prefix
    private let content: SealedContent

    /// - Returns: nil for anything but a protected file, for a link, and if it is damaged or cannot be read.
    package init?(of path: FilePath) {
        guard let file = try? LowerFile(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
            (try? file.isOneOfOurs()) == true, let state = try? ProtectedFileInfo.state(of: file)
        else { return nil }
        (prefix, content) = (state.heads.head.prefix, state.content)
    }
}
