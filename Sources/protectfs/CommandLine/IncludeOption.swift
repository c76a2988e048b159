import ArgumentParser
import DataProtection

/// `--include KIND`, any number of times.
struct IncludeOption: ParsableArguments {
    @Option(
        name: .customLong("include"),
        help: ArgumentHelp(
            "Also convert this kind of file, which is left out by default. May be repeated.",
            valueName: "kind"))
    var given: [LeftOut] = []

    var kinds: Set<LeftOut> { Set(given) }
}

extension LeftOut: ExpressibleByArgument {
    /// What help says of each.
    public static var allValueDescriptions: [String: String] {
        [
            databases.rawValue: "SQLite databases that are not in use",
            versionControl.rawValue: ".git, .hg, .svn, .bzr and bare git repositories",
            executables.rawValue: "programs and scripts with an execute permission",
            lockFiles.rawValue: "lock files of sockets and mail stores",
        ]
    }
}

extension LeftOut {
    /// How many of them, in words.
    func spoken(count: Int) -> String {
        self == .databases
            ? DataProtection.spoken(count, "file") + " of SQLite databases" : DataProtection.spoken(count, noun)
    }

    /// One of them.
    var noun: String {
        switch self {
        case .databases: "database"
        case .versionControl: "version-control store"
        case .executables: "executable"
        case .lockFiles: "lock file"
        }
    }

    /// Why one of them is left out.
    var reason: String {
        switch self {
        case .databases: "it belongs to a SQLite database"
        case .versionControl: "it is a version-control store"
        case .executables: "it is a program, which could not be executed any more"
        case .lockFiles: "it is a lock file"
        }
    }

    /// One of them, for `--json`.
    var word: String {
        switch self {
        case .databases: "database"
        case .versionControl: "versionControl"
        case .executables: "executable"
        case .lockFiles: "lockFile"
        }
    }
}
