import ArgumentParser
import DataProtection

/// Shows and changes the class of files and directories.
struct Class: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "class", abstract: "Show or change the class of files.",
        usage: "protectfs class [--json] PATH…\n       protectfs class [--allow-weaker] PATH… CLASS\n"
            + "       protectfs class --rekey [--allow-weaker] PATH… [CLASS]",
        discussion: """
            Shows the class of each path. If the last of several arguments is the name of a \
            class, the others get that class; write ./NAME for a file of such a name. Only the wrapped file key is \
            rewritten, never the data. The class of a directory is the default for new files in it, and in \
            directories below it that have no default of their own.

            With --rekey each file is encrypted again under a new file key, and replaced as a whole. The old file \
            key does not open the new file. Without a class each file keeps its own. Programs that have the file \
            open keep the old one.
            """)

    @Argument(help: "Files and directories. The last argument may be the new class.")
    var arguments: [PathsArgument]
    @Flag(help: "Allow a class that is weaker than the current one.")
    var allowWeaker = false
    @Flag(help: "Encrypt the file again, under a new file key.")
    var rekey = false
    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let paths = try arguments.stored(followsLast: !rekey)
        if paths.count > 1, let name = arguments.paths.last.flatMap({ String(validating: $0) }),
            let protectionClass = ProtectionClass(name: name)
        {
            let others = paths.dropLast()
            try rekey ? encrypt(others, as: protectionClass) : change(others, to: protectionClass)
        } else if rekey {
            try encrypt(paths[...], as: nil)
        } else {
            try show(paths)
        }
    }

    // MARK: showing

    private func show(_ paths: [FilePath]) throws {
        let outcome = Outcome()
        var lines = OutputLines()
        var entries: [JSON] = []
        for (index, path) in paths.enumerated() {
            let word: String?
            do throws(DataProtectionError) { word = try currentClass(of: path)?.shortName } catch {
                outcome.record(index > 0 && index == paths.count - 1 ? failure(ofLast: path, error) : error)
                continue
            }
            if json {
                entries.append(.object(JSON.members(of: path) + [("class", word.map { .string($0) } ?? .null)]))
            } else {
                let name = paths.count == 1 ? [] : Array("\t".utf8) + listed(path)
                try lines.add(Array((word ?? "-").utf8) + name)
            }
        }
        if json { try JSON.array(entries).print() } else { try lines.finish() }
        try outcome.leave()
    }

    /// What is not there may have been meant as a class.
    private func failure(ofLast path: FilePath, _ error: DataProtectionError) -> any Error {
        guard case .system(_, _, .noSuchFileOrDirectory) = error, StoredPlace.shown(path).components.count == 1 else {
            return error
        }
        let names = ProtectionClass.allValueStrings.joined(separator: ", ")
        return Failure(error.exitStatus, error.message, hint: "if a class is meant, they are: \(names)")
    }

    /// Nil for a directory without a default.
    private func currentClass(of path: FilePath) throws(DataProtectionError) -> ProtectionClass? {
        if try NamedItem(following: path).kind == .directory { return Keybag.defaultProtection(of: path) }
        return try ProtectedFileInfo(of: path).protectionClass
    }

    // MARK: changing

    private func change(_ paths: ArraySlice<FilePath>, to protectionClass: ProtectionClass) throws {
        let (keybags, allowsWeaker) = (Keybags(keybag), allowWeaker)
        let outcome = Outcome()
        let progress = Progress("changing the class", total: Int64(paths.count), of: .files)
        var done: Int64 = 0
        Interruption.watch()
        let workers = FileWorkers<FilePath, (any Error)?>(
            threads: min(paths.count, usualThreadCount), window: 64,
            work: { path in
                if Interruption.isRequested { return nil }
                do {
                    try Self.refuseDefaultOfNone(path, protectionClass)
                    let command = Self.command([allowsWeaker ? "--allow-weaker" : nil], path, protectionClass)
                    try keybags.changing(path, by: command) { keybag throws(DataProtectionError) in
                        try keybag.setProtection(protectionClass, ofItemAt: path, allowsWeaker: allowsWeaker)
                    }
                    return nil
                } catch { return error }
            },
            receive: { _, error in
                if let error { outcome.record(error) }
                done += 1
                progress.show(done)
            }, whileWaiting: {})
        for path in paths where !Interruption.isRequested { workers.add(path) }
        workers.finish()
        progress.finish()
        if Interruption.isRequested { throw Failure(.interrupted, "interrupted; the other files are unchanged") }
        try outcome.leave()
    }

    /// - Parameter protectionClass: nil: each keeps its own.
    private func encrypt(_ paths: ArraySlice<FilePath>, as protectionClass: ProtectionClass?) throws {
        let keybags = Keybags(keybag)
        let outcome = Outcome()
        let progress = Progress("encrypting", total: size(of: paths))
        let flags = ["--rekey", allowWeaker ? "--allow-weaker" : nil]
        Interruption.watch()
        for path in paths where !Interruption.isRequested {
            do {
                try progress.during(size(of: [path])) { step in
                    try keybags.changing(path, by: Self.command(flags, path, protectionClass)) {
                        keybag throws(DataProtectionError) in
                        try keybag.rekey(fileAt: path, as: protectionClass, allowsWeaker: allowWeaker, progress: step)
                    }
                }
            } catch {
                outcome.record(error)
            }
        }
        progress.finish()
        if Interruption.isRequested { throw Failure(.interrupted, "interrupted; the other files are unchanged") }
        try outcome.leave()
    }

    /// What they take on disk, for the bar.
    private func size(of paths: ArraySlice<FilePath>) -> Int64 {
        paths.reduce(0) { $0.adding(size: (try? NamedItem($1).size) ?? 0) }
    }

    /// It would not be followed: nobody authenticates a directory's default.
    private static func refuseDefaultOfNone(_ path: FilePath, _ protectionClass: ProtectionClass) throws {
        guard protectionClass == .none, try NamedItem(following: path).kind == .directory else { return }
        throw Failure(
            .refused, "\(quoted(path)) is a directory, and none cannot be the default of a directory",
            hint: "give it for each file: protectfs write --class none")
    }

    /// What to type behind `protectfs` for one of the paths.
    private static func command(_ flags: [String?], _ path: FilePath, _ protectionClass: ProtectionClass?) -> String {
        (["class"] + flags + [quoted(path), protectionClass?.shortName]).compactMap(\.self).joined(separator: " ")
    }
}
