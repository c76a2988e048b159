import CMemoryFiles
import DataProtection
import Glibc

/// The protected file that is edited: read once, and replaced as a whole after each save.
///
/// What an editor has saved is never lost. If the file cannot be replaced, because it is locked or somebody else has changed
/// it, the text is sealed beside it, as `FILE.edited`.
final class EditedFile {
    let path: FilePath
    let keybag: Keybag
    private let wantedClass: ProtectionClass?
    private(set) var protectionClass: ProtectionClass
    /// The file as we read or wrote it last; nil: there is none.
    private var known: FileVersion?
    /// What is sealed beside it.
    private(set) var beside: Beside?

    struct Beside {
        enum Reason { case locked, changed, unfinished }
        let path: FilePath
        let reason: Reason
        private let identity: FileVersion?

        fileprivate init(path: FilePath, reason: Reason) {
            (self.path, self.reason, identity) = (path, reason, FileVersion(path))
        }

        /// Nobody has touched it since.
        fileprivate var isOurs: Bool { identity != nil && FileVersion(path) == identity }
    }

    /// - Throws: `locked`, `notProtected`, `busy` and what else would keep the file from being read or replaced.
    init(_ path: FilePath, as wantedClass: ProtectionClass?, _ keybags: Keybags) throws {
        self.path = path
        self.wantedClass = wantedClass
        known = try FileVersion.ifThere(path)
        if known == nil {
            keybag = try keybags.own()
            protectionClass = try ProtectedFileWriter(path, as: wantedClass, keybag: keybag, replacing: false)
                .protectionClass
            return
        }
        keybag = try keybags.changing(path, by: "edit \(quoted(path))") { keybag throws(DataProtectionError) in
            try ProtectedFile.open(path, keybag: keybag).close()
            return keybag
        }
        // A `none` file becomes `first-unlock` and not `complete`: what the editor saves while locked still goes into it.
        keybag.fallbackProtection = .completeUntilFirstUserAuthentication
        protectionClass = try ProtectedFileWriter(path, keybag: keybag).protectionClass
        if let wantedClass, wantedClass != protectionClass {
            throw Failure(
                .refused, "\(quoted(path)) is \(protectionClass.shortName), not \(wantedClass.shortName)",
                hint: "change its class first: protectfs class \(quoted(path)) \(wantedClass.shortName)")
        }
    }

    /// Whether a lock shuts the file, so that its plain copy has to go. Raised by somebody meanwhile, the class counts; what
    /// somebody has put in its place says nothing of the text that we have.
    var isShutByLock: Bool {
        if let now = try? ProtectedFileInfo(of: path).protectionClass { protectionClass = max(protectionClass, now) }
        return protectionClass.isShutByLock
    }

    /// A file that is replaced gives its other names up.
    func warnOfOtherNames() {
        guard let known, known.names > 1 else { return }
        StandardError.line(
            .warning, "\(quoted(path)) has \(known.names) names; the others keep what was in it before")
    }

    // MARK: reading

    /// Fills the directory: the copy for the editor, and what it is compared with. Nothing if there is no file yet.
    func copy(to directory: EditDirectory) throws {
        guard known != nil else { return }
        let file = try ProtectedFile.open(path, keybag: keybag)
        try MemoryStorage.requireRoom(for: try file.size(), of: path, in: directory.path)
        let copy = try MemoryFile(creating: copyPath(in: directory))
        let saved = try MemoryFile(creating: directory.saved)
        try Pieces.forEach(of: file.pieces) { piece throws(DataProtectionError) in
            try copy.append(piece)
            try saved.append(piece)
        }
        try file.warnOfFindings(path)
        try file.close()
    }

    /// The copy has the file's own name: editors know by it what they edit.
    func copyPath(in directory: EditDirectory) -> FilePath { directory.copies.appending(path.lastComponent!) }

    // MARK: writing back

    /// Seals the copy, if it is any different from what was sealed last, and if nobody has it open for writing: what a program has written of a
    /// text would take the place of all of it.
    ///
    /// - Parameter isLast: whether nobody will call this again. Then half of a text is sealed beside the file rather than lost.
    /// - Returns: false if somebody has it open.
    @discardableResult
    func save(_ directory: EditDirectory, isLast: Bool = false) throws(DataProtectionError) -> Bool {
        guard let copy = try MemoryFile(opening: copyPath(in: directory)) else { return true }
        let isFinished = copy.waitForWriter()
        guard isFinished || isLast else { return false }
        let last = try MemoryFile(opening: directory.saved)
        if let last, try Pieces.areEqual(copy.read, last.read) { return true }
        // The text of this moment: the editor may save again while it is sealed.
        let text = try MemoryFile(creating: directory.saving)
        try Pieces.forEach(of: copy.read) { piece throws(DataProtectionError) in try text.append(piece) }
        if isFinished, copy.waitForWriter() {
            try seal(text.read, last: last?.read)
        } else if isLast {
            let isOpen = keybag.isProtectedDataAvailable || !protectionClass.isShutByLock
            try sealBeside(text.read, as: isOpen ? protectionClass : .completeUnlessOpen, .unfinished)
        } else {
            return false
        }
        _ = directory.saving.withPlatformString { old in directory.saved.withPlatformString { rename(old, $0) } }
        return true
    }

    private func seal(_ text: Pieces.Source, last: Pieces.Source?) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            if try replace(with: text, last: last) { return removeBeside() }
            try sealBeside(text, as: protectionClass, .changed)
        } catch {
            guard case .because(KeybagFailure.locked) = error else { throw error }
            // The one class that can be written while locked.
            try sealBeside(text, as: .completeUnlessOpen, .locked)
        }
    }

    /// Replaces the file as a whole: same class, owner and mode.
    ///
    /// - Parameter last: what was in it when we read or wrote it.
    /// - Returns: false if somebody else has changed it, or is changing it.
    private func replace(with text: Pieces.Source, last: Pieces.Source?) throws(DataProtectionError) -> Bool {
        // While there is this writer nobody writes to the file in place.
        guard let writer = try writer(), try isAsWeKnowIt(last) else { return false }
        try Pieces.forEach(of: text) { piece throws(DataProtectionError) in try writer.append(piece) }
        do throws(DataProtectionError) {
            // Somebody may have replaced the file while this text was written.
            try writer.finish { () throws(DataProtectionError) in try isAsWeKnowIt(last) }
        } catch {
            switch error {
            case .exists, .busy: return false  // somebody has put another file there meanwhile
            default: break
            }
            // It may be there all the same, where only the directory could not be flushed: that is nobody else's change.
            if (try? holds(text)) == true { known = FileVersion(path) }
            throw error
        }
        known = FileVersion(path)
        return true
    }

    /// A change of its class, mode or names is nobody's edit.
    private func isAsWeKnowIt(_ last: Pieces.Source?) throws(DataProtectionError) -> Bool {
        let now = try FileVersion.ifThere(path)
        if now == known { return true }
        guard let last, now != nil else { return false }
        return try holds(last)
    }

    private func holds(_ text: Pieces.Source) throws(DataProtectionError) -> Bool {
        guard let file = try? ProtectedFile.open(path, keybag: keybag) else { return false }
        return try Pieces.areEqual(text, file.pieces)
    }

    /// Nil if somebody goes on writing to the file.
    private func writer() throws(DataProtectionError) -> ProtectedFileWriter? {
        let isNew = known == nil
        for _ in 0..<20 {
            do throws(DataProtectionError) {
                return try ProtectedFileWriter(
                    path, as: isNew ? protectionClass : nil, keybag: keybag, replacing: !isNew)
            } catch {
                switch error {
                case .busy: usleep(100_000)
                // Something else was put in its place.
                case .notRegularFile: return nil
                default: throw error
                }
            }
        }
        return nil
    }

    /// Seals `text` in a new file: `FILE.edited`, `FILE.edited-2`, …; or in the one that we made before.
    private func sealBeside(
        _ text: Pieces.Source, as protectionClass: ProtectionClass, _ reason: Beside.Reason
    ) throws(DataProtectionError) {
        if let beside, beside.isOurs {
            try write(text, to: beside.path, as: protectionClass, replacing: true)
            self.beside = Beside(path: beside.path, reason: reason)
            return
        }
        var number = 1
        while true {
            var other = path
            if let name = path.lastComponent {
                other.removeLastComponent()
                other.append(name.followed(by: number == 1 ? ".edited" : ".edited-\(number)"))
            }
            do throws(DataProtectionError) {
                try write(text, to: other, as: protectionClass, replacing: false)
                beside = Beside(path: other, reason: reason)
                return
            } catch {
                guard case .exists = error else { throw error }
                number += 1
            }
        }
    }

    private func write(
        _ text: Pieces.Source, to path: FilePath, as protectionClass: ProtectionClass, replacing: Bool
    ) throws(DataProtectionError) {
        let writer = try ProtectedFileWriter(path, as: protectionClass, keybag: keybag, replacing: replacing)
        try Pieces.forEach(of: text) { piece throws(DataProtectionError) in try writer.append(piece) }
        try writer.finish()
    }

    /// After an unlock: what was sealed beside the file because of the lock takes its place.
    func putInPlace() throws(DataProtectionError) {
        guard let beside, beside.reason == .locked, beside.isOurs, keybag.isProtectedDataAvailable else { return }
        let file = try ProtectedFile.open(beside.path, keybag: keybag)
        if try replace(with: file.pieces, last: nil) {
            removeBeside()
        } else {
            self.beside = Beside(path: beside.path, reason: .changed)
        }
        try file.close()
    }

    /// What we sealed beside the file is older than the file now.
    private func removeBeside() {
        guard let beside, beside.isOurs else { return }
        if beside.path.withPlatformString({ unlink($0) }) == 0 { self.beside = nil }
    }
}
