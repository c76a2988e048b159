import ArgumentParser
import DataProtection
import Glibc

/// What would happen now, and why.
struct Explain: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain", abstract: "Explain which operations on a path are possible now, and why.",
        discussion: """
            For a file: whether it can be read, written, replaced and given another class now, what would help, and \
            what a stronger class would still allow. For a directory, or a name that does not exist: the class that \
            a new file gets, and the rule that decides it. Changes nothing and asks for no passcode.
            """)

    @Argument(help: "Files, directories, or names that do not exist yet.")
    var paths: [PathsArgument]
    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybags = Keybags(keybag)
        try Report.print(on: paths.paths, asJSON: json, recording: Outcome()) { path throws(DataProtectionError) in
            try explanation(of: path, keybags).report
        }
    }

    private func explanation(of path: FilePath, _ keybags: Keybags) throws(DataProtectionError) -> Explanation {
        let item: NamedItem
        do throws(DataProtectionError) { item = try NamedItem(following: path) } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            return try Explanation(ofNewFileAt: path, ExplainedKeybag(keybags.own))
        }
        switch item.kind {
        case .directory: return try Explanation(ofDirectory: path, ExplainedKeybag(keybags.own))
        case .link, .other: return Explanation("other", "not a regular file: such things are never protected")
        case .file: break
        }
        let directory = path.removingLastComponent()
        let mayReplace = access(W_OK | X_OK, directory.isEmpty ? "." : directory)
        do throws(DataProtectionError) {
            let info = try ProtectedFileInfo(of: path)
            return try Explanation(
                of: info, at: path, ExplainedKeybag(of: info.keybag, among: keybags),
                mayWrite: access(W_OK, path), mayReplace: mayReplace)
        } catch {
            switch error {
            case .notProtected:
                return try Explanation(ofPlaintext: item, ExplainedKeybag(keybags.own), mayReplace: mayReplace)
            case .mangled(_, let mangling): return Explanation(of: mangling, help: error.hint)
            case .system(_, _, .permissionDenied):
                return Explanation(
                    "unreadable", "its owner does not let you read it; whether it is protected is not known")
            default: throw error
            }
        }
    }

    private func access(_ mode: Int32, _ path: FilePath) -> Bool {
        path.withPlatformString { Glibc.access($0, mode) } == 0
    }
}

/// What an explanation needs to know of a keybag.
struct ExplainedKeybag {
    /// Nil where it cannot be used.
    var state: ProtectionState?
    var keybag: Keybag?
    /// Where it is and what state it is in, or why it cannot be used.
    var spoken: String
    /// What would help where it cannot be used.
    var help: String?
    /// Why class none cannot be used, and class unless-open before the first unlock.
    var deviceKeyProblem: DataProtectionError?

    var directory: FilePath? { keybag?.directory }

    init(_ open: () throws(DataProtectionError) -> Keybag) {
        do throws(DataProtectionError) {
            let keybag = try open()
            let status = try keybag.status()
            state = status.state
            self.keybag = keybag
            deviceKeyProblem = KeybagHealth(of: keybag.directory).deviceKeyProblem
            let words = status.state == .unlocked ? "unlocked" : status.state.spoken(since: status.lastTransition)
            spoken = "\(quoted(keybag.directory)), \(words)"
        } catch {
            spoken = if case .foreignKeybag = error { "not available to you" } else { error.message }
            help = error.hint
        }
    }

    /// The keybag of a file that is there.
    init(of uuid: KeybagUUID, among keybags: Keybags) {
        self.init { () throws(DataProtectionError) in
            if let keybag = keybags.named(uuid) { return keybag }
            // The user's own may be it, and be damaged.
            do throws(DataProtectionError) { _ = try keybags.own() } catch {
                guard case .keybagNotFound(let directory) = error, !Keybag.wasUsed(in: directory, as: uuid) else {
                    throw error
                }
            }
            throw .foreignKeybag("", uuid)
        }
    }
}
