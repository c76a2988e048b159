import ArgumentParser
import DataProtection

/// Classes and true sizes.
struct Ls: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls", abstract: "List files with their class and plaintext size, in any lock state.",
        discussion: """
            Columns: class, size in bytes, name. The class of a file that is not protected is "-". A directory is \
            shown with its default class and no size.
            """)

    @Argument(help: "Files and directories (default: the current directory).")
    var paths: [PathsArgument] = []
    @Flag(name: [.customShort("R"), .long], help: "List directories recursively.")
    var recursive = false
    @Flag(help: "Print the result as JSON.")
    var json = false

    // Accepted as everywhere; a list needs no keybag.
    @OptionGroup var keybag: KeybagOption

    /// One line.
    private struct Entry {
        let item: NamedItem
        /// The class, what is said in its place, or nil.
        var word: String?
        var size: Int64?
        var info: ProtectedFileInfo?
        var failure: Failure?
    }

    func run() throws {
        let outcome = Outcome()
        var list = JSONList()
        var lines = OutputLines()
        // Errors of standard output end the walk.
        var outputFailure: Failure?
        func add(_ item: NamedItem) -> Bool {
            let entry = look(at: item)
            if let failure = entry.failure { outcome.record(failure) }
            do throws(Failure) {
                if json { try list.add(members(entry)) } else { try lines.add(line(entry)) }
            } catch {
                outputFailure = error
            }
            return outputFailure == nil
        }
        for path in paths.isEmpty ? [try StoredPlace.of(".")] : try paths.stored() {
            do throws(DataProtectionError) {
                try visit(path, outcome, add)
            } catch {
                outcome.record(error)
            }
        }
        if let outputFailure { throw outputFailure }
        if json { try list.finish() } else { try lines.finish() }
        try outcome.leave()
    }

    private func visit(
        _ path: FilePath, _ outcome: Outcome, _ add: (NamedItem) -> Bool
    ) throws(DataProtectionError) {
        let item = try NamedItem(following: path)
        guard item.kind == .directory else {
            _ = add(item)
            return
        }
        let directory = try LowerDirectory(path)
        try TreeWalk(crossesFileSystems: true).walk(below: directory, recordingIn: outcome) {
            guard add($0) else { return .stop }
            return recursive ? .goOn : .leaveOut
        }
    }

    private func look(at item: NamedItem) -> Entry {
        var entry = Entry(item: item)
        switch item.kind {
        case .directory:
            entry.word = (try? item.directory()).flatMap { directory in
                withExtendedLifetime(directory) { Keybag.defaultProtection(of: $0.descriptorPath)?.shortName }
            }
        case .link, .other: break
        case .file:
            do throws(DataProtectionError) {
                let info = try ProtectedFileInfo(path: item.path, file: item.file())
                entry.info = info
                entry.word = info.protectionClass.shortName
                entry.size = info.size
            } catch {
                entry.size = item.size
                if case .notProtected = error { break }
                let failure = Failure(error)
                entry.failure = failure
                entry.word = failure.status == .damaged ? "damaged" : "unreadable"
            }
        }
        return entry
    }

    private func line(_ entry: Entry) -> [UInt8] {
        let word = entry.word ?? "-"
        let size = entry.size.map(String.init) ?? "-"
        let columns =
            word + String(repeating: " ", count: max(1, 13 - word.count))
            + String(repeating: " ", count: max(0, 14 - size.count)) + size + "  "
        let mark = entry.item.kind == .directory ? [UInt8(ascii: "/")] : []
        return Array(columns.utf8) + listed(entry.item.path) + mark
    }

    private func members(_ entry: Entry) -> JSON {
        let kinds: [NamedItem.Kind: String] = [.directory: "directory", .file: "file", .link: "link", .other: "other"]
        var members = JSON.members(of: entry.item.path)
        members.append(("kind", .string(kinds[entry.item.kind] ?? "other")))
        members.append(("class", entry.failure == nil ? entry.word.map { .string($0) } ?? .null : .null))
        members.append(("size", .optional(entry.size)))
        if let info = entry.info { members.append(("keybag", .string("\(info.keybag)"))) }
        if let failure = entry.failure { members.append(("error", .string(failure.message))) }
        return .object(members)
    }
}
