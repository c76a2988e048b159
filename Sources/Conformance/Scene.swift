import DataProtection
import Glibc
import SystemPackage

/// One cell, tried: a directory with a file in it, brought to a moment, and looked at again afterwards.
///
/// The library makes what must be there before, and looks at what is there afterwards, also where a command or a mount is tested.
final class Scene {
    let subject: any Subject
    let backstage: LibrarySubject
    let directory: FilePath
    let file: FilePath
    let protectionClass: ProtectionClass
    let moment: Moment
    /// Those that *locked* may name.
    var classes: Set<ProtectionClass>
    /// What the file holds, if all goes as it must; nil: there is no file.
    var contents: [UInt8]?
    /// The class that it has then; nil: it is plaintext.
    var finalClass: ProtectionClass?

    /// More than the chunk that is sealed at once.
    static let text = (0..<5_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    /// More than what a stream and one read of the command hold together, so that a reader can be stopped half way.
    static let longText = (0..<1_500_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }

    init(_ subject: any Subject, _ backstage: LibrarySubject, _ directory: FilePath, _ cell: Cell) {
        (self.subject, self.backstage, self.directory, moment) = (subject, backstage, directory, cell.moment)
        file = directory.appending("file")
        switch cell.attempt {
        case .operation(_, let protectionClass):
            (self.protectionClass, classes) = (protectionClass, [protectionClass])
        case .classChange(let old, let new, _): (protectionClass, classes) = (old, [old, new])
        }
        finalClass = protectionClass
    }

    /// What comes of the cell.
    func play(_ attempt: Cell.Attempt) throws -> Finding {
        try subject.enter(.unlocked)
        switch attempt {
        case .operation(let rehearsal, _): return try rehearse(rehearsal)
        case .classChange(_, let new, let isOpen): return try changeClass(to: new, isOpen: isOpen)
        }
    }

    private func rehearse(_ rehearsal: Rehearsal) throws -> Finding {
        switch rehearsal {
        case .create: try create()
        case .createInherited: try createInherited()
        case .openToRead, .openToWrite, .openToAppend, .openToEmpty, .truncateByPath:
            try open(rehearsal, isBeside: false)
        case .openBesideToRead: try open(.openToRead, isBeside: true)
        case .openBesideToWrite: try open(.openToWrite, isBeside: true)
        case .readOpened, .writeOpened, .appendOpened, .truncateOpened: try useOpened(rehearsal)
        case .readCreated, .writeCreated, .appendCreated, .truncateCreated: try useCreated(rehearsal)
        case .openAfterCreated: try openAfterCreated()
        case .sync, .close: try commit(rehearsal)
        case .stat, .getClass, .list, .changeMode, .changeTimes, .setDirectoryClass: try inspect(rehearsal)
        case .rename, .link, .unlink: try rename(rehearsal)
        case .copyCiphertext, .copy: try copy(rehearsal)
        case .replace: try replace()
        case .protect: try protect()
        case .unprotect: try unprotect()
        case .rekey: try rekey()
        case .readItem, .addItem, .updateItem: try useItem(rehearsal)
        case .newMapping, .existingMapping: try map(rehearsal)
        case .exchange:
            throw NotApplicable("there is no such feature yet")
        }
    }

    // MARK: before, in between, afterwards

    /// Makes the file, while unlocked.
    func make(_ bytes: [UInt8] = text) throws {
        try backstage.create(file, as: protectionClass, bytes)
        contents = bytes
    }

    /// Does it at the moment.
    func act(_ body: () throws -> Void) throws -> Finding {
        try subject.enter(moment)
        do {
            try body()
            return .goes
        } catch {
            return finding(of: error)
        }
    }

    /// What an error says.
    func finding(of error: any Error) -> Finding {
        switch error {
        case let error as NotApplicable: .notApplicable(error.reason)
        case let error as Contradiction: .other(error.text)
        default:
            subject.finding(of: error, at: moment, classes: classes)
                ?? .other((error as? DataProtectionError)?.facts ?? "\(error)")
        }
    }

    /// Whether the directory holds what it must afterwards, and nothing else; the finding, if it does.
    func settled(_ finding: Finding, beside others: [String] = []) throws -> Finding {
        guard finding == .goes || finding == .locked || finding == .refused else { return finding }
        try subject.enter(.unlocked)
        func otherwise(_ what: String) -> Finding { .other("\(finding.words), but \(what)") }

        let names = try settledNames()
        let expected = ((contents == nil ? [] : ["file"]) + others).sorted()
        guard names == expected else { return otherwise("there are the files \(names) instead of \(expected)") }
        guard let contents else { return finding }
        if let finalClass {
            let found = try backstage.protectionClass(of: file)
            guard found == finalClass else { return otherwise("the file is \(found.shortName) then") }
        }
        let found = try finalClass == nil ? RawFile.bytes(of: file) : backstage.read(file)
        guard found == contents else { return otherwise("the file holds something else then") }
        return finding
    }

    /// The names in the directory. A server of libfuse(3) keeps a file that was replaced while open under a hidden name until
    /// the kernel has told it of the close, for which close(2) does not wait; so it has ten seconds for that.
    private func settledNames() throws -> [String] {
        let limit = ContinuousClock.now + .seconds(10)
        while true {
            let names = try DirectoryListing.names(of: directory)
            guard names.contains(where: { $0.hasPrefix(".fuse_hidden") }), .now < limit else { return names }
            usleep(10_000)
        }
    }
}

extension DataProtectionError {
    /// The error in few words: what the system said, or the name of ours.
    var facts: String {
        if case .system(_, let operation, let errno) = self { return "\(operation): \(errno)" }
        let named: Any = if case .because(let failure) = self { failure } else { self }
        return Mirror(reflecting: named).children.first?.label ?? "\(named)"
    }
}
