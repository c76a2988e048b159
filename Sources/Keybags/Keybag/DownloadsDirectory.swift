import DurableFiles
import SystemPackage

/// Where the list of downloads is kept, in the keybag's directory. FORMAT.md §2.14.
package enum DownloadsDirectory {
    package static let name = "downloads"
    /// In it: the protected file that holds the key of the list's values.
    package static let keyName = "key"

    /// The protected files that a keybag itself keeps in its directory: a rotation must reach them, wherever its roots are.
    ///
    /// - Throws: `system` if it cannot be seen whether there are any.
    package static func protectedFiles(of keybag: Keybag) throws(DataProtectionError) -> [FilePath] {
        let key = keybag.directory.appending(name).appending(keyName)
        return try key.isThere() ? [key] : []
    }
}
