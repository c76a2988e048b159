import ArgumentParser
import DataProtection

/// Turns protected files into plaintext, in place.
struct Unprotect: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unprotect", abstract: "Decrypt protected files in place.",
        discussion: """
            Each file is wholly old or wholly new, whatever happens. A file of another user is refused, because that \
            user could read the plaintext. With --recursive the default classes of the directories are removed too.

            With --salvage a damaged file stays as it is. Everything that still opens is saved in a new file beside \
            it: FILE.salvaged-1, or the first free number. Bytes that do not open are zeros there. Each such range \
            is an error, and the exit status is 65.
            """)

    @Argument(help: "Files; with --recursive also directories.")
    var paths: [PathsArgument]
    @Flag(name: [.customShort("r"), .long], help: "Include everything below each directory, on the same file system.")
    var recursive = false
    @Flag(help: "Include files of other users, who can then read the plaintext.")
    var allowOtherOwner = false
    @Flag(help: "Save the parts of damaged files that still open in new files. Nothing is replaced.")
    var salvage = false
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if salvage && recursive { throw ValidationError("--salvage takes files by name, not with --recursive") }
    }

    func run() throws {
        if salvage { return try salvageAll() }
        let items = try ConversionItems(paths.stored(followsLast: false), isRecursive: recursive)
        let keybags = Keybags(keybag)
        let outcome = items.outcome
        let progress = Progress("unprotecting", total: items.items.allSatisfy { $0.kind == .file } ? items.bytes : 0)
        Interruption.watch()
        for item in items.items {
            TreeWalk(crossesFileSystems: false).walk(item.path, recordingIn: outcome) { item in
                if Interruption.isRequested { return .stop }
                if item.kind == .directory, let directory = try? item.directory() {
                    let isBackup = Backup.isOne(directory)
                    if isBackup || KeybagFile.isThere(in: directory) {
                        let kind = isBackup ? "a backup" : "a keybag"
                        StandardError.line(.warning, "\(quoted(item.path)) is \(kind) and is left out")
                        return .leaveOut
                    }
                }
                do {
                    switch item.kind {
                    case .directory:
                        if let entry = item.entry {
                            try Keybag.removeDefaultProtection(of: entry)
                        } else {
                            try Keybag.removeDefaultProtection(of: item.path)
                        }
                    case .file: try convert(item, keybags, progress)
                    case .link, .other: break  // never protected
                    }
                } catch {
                    outcome.record(error)
                }
                return .goOn
            }
        }
        progress.finish()
        if Interruption.isRequested { throw Failure(.interrupted, "interrupted; the other files are unchanged") }
        try outcome.leave()
    }

    private func salvageAll() throws {
        let keybags = Keybags(keybag)
        let outcome = Outcome()
        for path in try paths.stored(followsLast: false) {
            do throws(DataProtectionError) {
                let result = try keybags.reading(path) { keybag throws(DataProtectionError) in
                    try keybag.salvage(path)
                }
                for bytes in result.missing {
                    outcome.record(
                        Failure(
                            .damaged,
                            "\(quoted(path)): bytes \(bytes.lowerBound) to \(bytes.upperBound - 1) do not open; they are zeros in "
                                + quoted(result.target)))
                }
                StandardError.line(
                    .note, "the contents of \(quoted(path)) are in \(quoted(result.target)), which is not protected")
            } catch {
                outcome.record(error)
            }
        }
        try outcome.leave()
    }

    private func convert(
        _ item: NamedItem, _ keybags: Keybags, _ progress: Progress
    ) throws {
        let command = "unprotect\(allowOtherOwner ? " --allow-other-owner" : "") \(quoted(item.path))"
        try progress.during(item.size) { step in
            _ = try keybags.changing(item.path, by: command) { keybag throws(DataProtectionError) in
                guard let entry = item.entry else {
                    return try keybag.unprotect(item.path, allowsOtherOwner: allowOtherOwner, progress: step)
                }
                return try keybag.unprotect(
                    ConversionSource(named: entry), allowsOtherOwner: allowOtherOwner, progress: step)
            }
        }
    }
}

extension ConversionItems {
    /// What the files take on disk.
    fileprivate var bytes: Int64 { items.reduce(0) { $0.adding(size: $1.size) } }
}
