import DurableFiles
import SystemPackage

/// What the layers above finish whenever a keybag has been locked or unlocked: what a process that died has left half done. It needs no
/// key, and must not take long.
///
/// Every way to open a keybag asks for it, so that no lock leaves it out.
package struct LockFollowUp: Sendable {
    private let finish: @Sendable (_ keybag: FilePath, _ warn: (ProtectionWarning) -> Void) -> Void

    package init(_ finish: @escaping @Sendable (_ keybag: FilePath, _ warn: (ProtectionWarning) -> Void) -> Void) {
        self.finish = finish
    }

    /// - Parameter keybag: the keybag's directory.
    package func perform(in keybag: FilePath, warn: (ProtectionWarning) -> Void) { finish(keybag, warn) }
}
