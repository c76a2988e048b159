import ArgumentParser
import DataProtection
import Glibc

/// What is possible with a path now, and why; or what is stored there.
struct Explain: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain", abstract: "Explain which operations on a path are possible now, and why.",
        discussion: """
            For a file: whether it can be read, written, replaced and given another class now, what would help, and \
            what a stronger class would still allow. For a directory, or a name that does not exist: the class that \
            a new file gets, and the rule that decides it. Changes nothing and asks for no passcode.

            --stored shows the metadata that is stored in protected files and keybags instead. It works in every lock \
            state and on damaged files: it prints what can be read and names what is damaged, and the exit status is \
            then 65. Without the class key nothing can be authenticated, and the output says "unverified". It shows no \
            keys, not even wrapped ones.
            """)

    @Argument(help: "Files, directories, or names that do not exist yet; with --stored: files or keybags.")
    var paths: [PathsArgument]
    @Flag(help: "Show the stored metadata of protected files, keybag directories, and copies of keybags.")
    var stored = false
    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let (keybags, paths) = (Keybags(keybag), try paths.stored())
        if stored { return try StoredMetadata(keybags).print(of: paths, asJSON: json) }
        try Report.print(on: paths, asJSON: json, recording: Outcome()) { path throws(DataProtectionError) in
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
            let keybag = ExplainedKeybag(of: info.keybag, among: keybags)
            if keybag.isOther, let other = keybag.keybag { keybags.warn(of: other, reading: path) }
            return try Explanation(
                of: info, at: path, keybag, replacedUnder: keybag.isOther ? ExplainedKeybag(keybags.own) : keybag,
                mayWrite: access(W_OK, path), mayReplace: mayReplace)
        } catch {
            switch error {
            case .notProtected:
                return try Explanation(ofPlaintext: item, ExplainedKeybag(keybags.own), mayReplace: mayReplace)
            case .because(FileFailure.mangled(_, let mangling)): return Explanation(of: mangling, help: error.hint)
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
