import DataProtection
import Glibc

/// What `protect` leaves alone: without it nobody could log in, or unlock.
struct UnprotectableNames {
    private let home: FilePath
    /// The keybag, the device key and the configuration.
    private let ours: [FilePath]

    /// Directories and files of ssh, GnuPG and shells, which are read before anybody can unlock.
    private static let exactNames: Set<String> = [
        ".ssh", ".gnupg", ".profile", ".login", ".logout", ".cshrc", ".tcshrc", ".kshrc", ".mkshrc",
        ".inputrc", ".pam_environment", ".oh-my-zsh",
    ]
    private static let prefixes = [".bash", ".zsh", ".zprofile", ".zlogin", ".zlogout"]
    private static let configurations: Set<String> = ["fish", "bash", "zsh", "nushell"]

    init(keybag: FilePath) {
        home = Self.realpath(Locations.home) ?? Locations.home
        let own = [
            keybag, Locations.deviceKey.removingLastComponent(), Locations.configuration.removingLastComponent(),
        ]
        ours = own.compactMap { Self.realpath($0) ?? Self.resolved($0) }
    }

    /// Why the item at `path` is not to be protected; nil if nothing is against it.
    func reason(against path: FilePath) -> String? {
        guard let resolved = Self.resolved(path) else { return nil }  // what is not there has its own error
        if home.starts(with: resolved) {
            if resolved == "/" { return "it is the root directory" }
            return resolved == home ? "it is the home directory" : "the home directory is below it"
        }
        if ours.contains(where: { resolved.starts(with: $0) }) { return "protectfs itself needs it to unlock" }
        let names = resolved.components.map(\.string)
        for (index, name) in names.enumerated() {
            let isShells = Self.exactNames.contains(name) || Self.prefixes.contains { name.hasPrefix($0) }
            let isConfiguration =
                name == ".config" && index + 1 < names.count && Self.configurations.contains(names[index + 1])
            if isShells || isConfiguration { return "ssh or a shell needs it before anybody can unlock" }
        }
        return nil
    }

    /// The directory resolved, the last component as it is.
    private static func resolved(_ path: FilePath) -> FilePath? {
        guard let name = path.lastComponent, name.kind == .regular, (try? NamedItem(path).kind) != .directory else {
            return realpath(path)
        }
        let directory = path.removingLastComponent()
        return realpath(directory.isEmpty ? "." : directory)?.appending(name)
    }

    private static func realpath(_ path: FilePath) -> FilePath? {
        guard let found = path.withPlatformString({ Glibc.realpath($0, nil) }) else { return nil }
        defer { free(found) }
        return FilePath(platformString: found)
    }
}
