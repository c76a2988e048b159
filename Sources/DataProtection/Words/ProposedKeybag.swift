import Keybags
import Synchronization
package import SystemPackage

/// The keybag that a proposed command means.
package enum ProposedKeybag {
    /// What the command needs, so that it means this keybag: nothing for the one that is taken anyway.
    package static func words(for directory: FilePath) -> String {
        directory == Locations.keybag ? "" : " --keybag \(quoted(directory))"
    }

    /// The keybag that a command was told to use: what a proposed command means where a file does not say. Otherwise the user's.
    package static var opened: FilePath { lastOpened.withLock { $0 } ?? Locations.keybag }
    private static let lastOpened = Mutex<FilePath?>(nil)

    /// A command was told to use this keybag.
    package static func note(opened directory: FilePath) { lastOpened.withLock { $0 = directory } }
}
