import DurableFiles
import Glibc
import SystemPackage

/// Where things are by default: the XDG base directories.
public enum Locations {
    /// `$XDG_DATA_HOME/protectfs/default`, or `PROTECTFS_KEYBAG`.
    public static var keybag: FilePath {
        if let path = variable("PROTECTFS_KEYBAG") { return FilePath(path) }
        return base("XDG_DATA_HOME", ".local/share").appending("default")
    }

    /// `$XDG_STATE_HOME/protectfs/device-key`.
    public static var deviceKey: FilePath { state.appending("device-key") }

    /// `$XDG_STATE_HOME/protectfs/keybags`: a link for every keybag once used, named by its UUID.
    package static var registry: FilePath { state.appending("keybags") }

    /// `$XDG_CONFIG_HOME/protectfs/config`.
    public static var configuration: FilePath { base("XDG_CONFIG_HOME", ".config").appending("config") }

    /// The home directory: `HOME`, else what the user database says.
    public static var home: FilePath {
        if let path = variable("HOME") { return FilePath(path) }
        if let entry = getpwuid(geteuid()), let directory = entry.pointee.pw_dir {
            return FilePath(platformString: directory)
        }
        return "/"
    }

    private static var state: FilePath { base("XDG_STATE_HOME", ".local/state") }

    /// XDG says: a relative path in these variables is invalid and ignored.
    private static func base(_ name: String, _ fallback: String) -> FilePath {
        if let path = variable(name), path.hasPrefix("/") { return FilePath(path).appending("protectfs") }
        return home.appending(fallback).appending("protectfs")
    }

    private static func variable(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }
}
