import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import SystemPackage

/// What is left alone: without it nobody could log in, or unlock.
package struct UnprotectableNames {
    private let home: FilePath
    /// The keybag, the device key and the configuration.
    private let ours: [FilePath]

    /// Directories and files of ssh, GnuPG, shells and sessions, which are read before anybody can unlock.
    private static let exactNames: Set<String> = [
        ".ssh", ".gnupg", ".profile", ".login", ".logout", ".cshrc", ".tcshrc", ".kshrc", ".mkshrc",
        ".inputrc", ".pam_environment", ".oh-my-zsh",
    ]
    private static let prefixes = [".bash", ".zsh", ".zprofile", ".zlogin", ".zlogout"]
    private static let configurations: Set<String> = [
        "fish", "bash", "zsh", "nushell", "systemd", "environment.d", "autostart",
    ]

    package init(keybag: FilePath) {
        home = Locations.home.canonical ?? Locations.home
        let own = [
            keybag, Locations.deviceKey.removingLastComponent(), Locations.configuration.removingLastComponent(),
        ]
        ours = own.compactMap { $0.canonical ?? Self.resolved($0) }
    }

    /// Why the item at `path` is not to be protected; nil if nothing is against it.
    package func reason(against path: FilePath) -> String? {
        guard let resolved = Self.resolved(path) else { return nil }  // what is not there has its own error
        if home.starts(with: resolved) {
            if resolved == "/" { return "it is the root directory" }
            return resolved == home ? "it is the home directory" : "the home directory is below it"
        }
        if ours.contains(where: { resolved.starts(with: $0) }) { return "protectfs itself needs it to unlock" }
        var above = FilePath(root: resolved.root, [])
        for name in resolved.components {
            if let reason = Self.reason(againstName: name, in: above.lastComponent) { return reason }
            above.append(name)
        }
        return nil
    }

    /// The same of a name in a directory that is resolved, and against which there is nothing itself.
    ///
    /// - Parameters:
    ///   - directory: nil where ``areBelow(_:)`` says that only the name matters.
    ///   - parent: the directory's own name.
    package func reason(
        against name: FilePath.Component, in directory: FilePath?, named parent: FilePath.Component?
    ) -> String? {
        if let path = directory?.appending(name) {
            if ours.contains(path) { return "protectfs itself needs it to unlock" }
            if home.starts(with: path) {
                return home == path ? "it is the home directory" : "the home directory is below it"
            }
        }
        return Self.reason(againstName: name, in: parent)
    }

    /// Whether something is left alone below a directory because of its path, and not only because of its name.
    package func areBelow(_ directory: FilePath) -> Bool { ([home] + ours).contains { $0.starts(with: directory) } }

    private static func reason(
        againstName name: FilePath.Component, in directory: FilePath.Component?
    ) -> String? {
        let text = name.string
        let isShells =
            text.hasPrefix(".") && (exactNames.contains(text) || prefixes.contains { text.hasPrefix($0) })
        let isConfiguration = configurations.contains(text) && directory?.string == ".config"
        return isShells || isConfiguration ? "ssh, a shell or the session needs it before anybody can unlock" : nil
    }

    /// The directory resolved, the last component as it is.
    private static func resolved(_ path: FilePath) -> FilePath? {
        guard let name = path.lastComponent, name.kind == .regular,
            ((try? path.status()) ?? nil)?.st_mode.isDirectory != true
        else { return path.canonical }
        let directory = path.removingLastComponent()
        return (directory.isEmpty ? "." : directory).canonical?.appending(name)
    }
}

extension mode_t {
    fileprivate var isDirectory: Bool { self & S_IFMT == S_IFDIR }
}
