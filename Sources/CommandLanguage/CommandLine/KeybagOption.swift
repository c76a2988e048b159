import ArgumentParser
import DataProtection
import Synchronization

/// `--keybag DIR`, for every verb.
package struct KeybagOption: ParsableArguments {
    @Option(
        name: .customLong("keybag"),
        help: ArgumentHelp(
            "The keybag directory (default: PROTECTFS_KEYBAG, else your own keybag).", valueName: "dir"),
        completion: .directory)
    private var directory: PathArgument?

    package init() {}

    /// Where the keybag is, or would be.
    package var location: FilePath { directory?.path ?? Locations.keybag }

    /// Whether it was named on this command line.
    package var isExplicit: Bool { directory != nil }

    /// What a command that is proposed needs, so that it means this keybag: nothing for the one that is taken anyway.
    package static func words(for directory: FilePath) -> String {
        ProposedKeybag.words(for: directory)
    }

    /// The keybag that this process was told to use: what a proposed command means where a file does not say.
    package static var opened: FilePath { ProposedKeybag.opened }

    /// Opens the keybag. No key is needed.
    package func open() throws(DataProtectionError) -> Keybag {
        ProposedKeybag.note(opened: location)
        return Self.forCommands(try Keybag(at: location, warn: ProtectionWarning.print))
    }

    /// The class of a new file that a command makes, if neither `--class`, the directory nor the configuration says one.
    ///
    /// The library takes iOS's default, because programs also run while the machine is locked. A person is there.
    package static let fallbackForCommands = ProtectionClass.complete

    /// The same keybag, with that class.
    fileprivate static func forCommands(_ keybag: Keybag) -> Keybag {
        keybag.fallbackProtection = fallbackForCommands
        return keybag
    }
}

/// The keybag of this command, and the remembered ones under which files that belong elsewhere are read.
///
/// May be used by several threads at once.
package final class Keybags: Sendable {
    private struct Known {
        var own: Keybag?
        var remembered: [KeybagUUID: Keybag] = [:]
    }
    private let option: KeybagOption
    private let keybags = Mutex(Known())

    package init(_ option: KeybagOption) { self.option = option }

    /// The one of `--keybag`, `PROTECTFS_KEYBAG`, or the user's.
    package func own() throws(DataProtectionError) -> Keybag {
        try keybags.withLock { known throws(DataProtectionError) in
            if let keybag = known.own { return keybag }
            let keybag = try option.open()
            known.own = keybag
            return keybag
        }
    }

    // MARK: files of other keybags

    // Nothing authenticates the link by which a keybag is remembered, nor the keybag named in the head of a file. An attacker who can write to the
    // disk can point both at a keybag of their own, and can then read anything written under it. So only `--keybag` selects a keybag to write under,
    // and reading under another keybag prints a warning.

    /// Runs `body`, which only reads the file at `path`, with our keybag. If the file belongs to another one that this user knows, runs it
    /// with that one, after a warning.
    package func reading<R>(
        _ path: FilePath, _ body: (Keybag) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        try reading(path, { try? ProtectedFileInfo(of: path) }, body)
    }

    /// The same of an open file.
    package func reading<R>(
        _ file: LowerFile, _ body: (Keybag) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        try reading(file.path, { try? ProtectedFileInfo(path: file.path, file: file) }, body)
    }

    private func reading<R>(
        _ path: FilePath, _ info: () -> ProtectedFileInfo?, _ body: (Keybag) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        do throws(DataProtectionError) { return try body(own()) } catch {
            guard let uuid = Self.owner(after: error, info) else { throw error }
            guard let other = known(uuid) else { throw foreign(path, uuid, error) }
            warn(of: other, reading: path)
            return try body(other)
        }
    }

    /// Runs `body`, which changes the file at `path`, with our keybag, and with no other one.
    ///
    /// - Parameter command: what to type behind `protectfs`, without `--keybag`.
    /// - Throws: a `Failure` with the command that names the file's keybag, if the file belongs to another one that this user knows.
    package func changing<R>(
        _ path: FilePath, by command: String, _ body: (Keybag) throws(DataProtectionError) -> R
    ) throws -> R {
        do throws(DataProtectionError) { return try body(own()) } catch {
            guard let uuid = Self.owner(after: error, { try? ProtectedFileInfo(of: path) }) else { throw error }
            guard let other = known(uuid) else { throw foreign(path, uuid, error) }
            throw Failure(
                .notFound,
                "\(quoted(path)) belongs to keybag \(uuid) in \(quoted(other.directory)), not to the keybag of this command, "
                    + quoted(option.location),
                hint: "if that keybag is yours: protectfs \(command)\(KeybagOption.words(for: other.directory))")
        }
    }

    /// Runs `body`, which puts a new file in the place of the one at `path`, with our keybag. To which one the old file belongs decides
    /// nothing; a warning says so.
    package func replacing<R>(
        _ path: FilePath, _ body: (Keybag) throws(DataProtectionError) -> R
    ) throws -> R {
        let own = try own()
        guard let info = try? ProtectedFileInfo(of: path), info.keybag != own.uuid else { return try body(own) }
        StandardError.line(
            .warning,
            "\(quoted(path)) belongs to another keybag, \(info.keybag); the new file belongs to \(quoted(own.directory))"
        )
        do throws(DataProtectionError) { return try body(own) } catch {
            guard error.isLocked else { throw error }
            // The usual hint names the keybag of the old file.
            throw Failure(
                error.exitStatus, error.message,
                hint: "unlock first: protectfs unlock\(KeybagOption.words(for: own.directory))")
        }
    }

    /// Warns that a file is read under another keybag than ours.
    package func warn(of other: Keybag, reading path: FilePath) {
        StandardError.line(
            .warning,
            "\(quoted(path)) belongs to another keybag, \(quoted(other.directory)), and is read with it; "
                + "if you do not know that keybag, somebody else may have written the file")
    }

    /// Whether a keybag is another one than that of this command.
    package func isOther(_ keybag: Keybag) -> Bool { (try? own())?.uuid != keybag.uuid }

    /// The keybag of the file, if `error` means that it is not ours.
    private static func owner(after error: DataProtectionError, _ info: () -> ProtectedFileInfo?) -> KeybagUUID? {
        switch error {
        case .because(FileFailure.foreignKeybag(_, let uuid)): uuid
        case .because(KeybagFailure.keybagNotFound): info()?.keybag
        default: nil
        }
    }

    /// The error for a file whose keybag is not known.
    private func foreign(_ path: FilePath, _ uuid: KeybagUUID, _ error: DataProtectionError) -> DataProtectionError {
        guard case .because(KeybagFailure.keybagNotFound(let directory)) = error,
            !KeybagRegistry.wasUsed(in: directory, as: uuid)
        else {
            return error
        }
        return .because(FileFailure.foreignKeybag(path, uuid))
    }

    /// The keybag of that name, if it is this command's, or is known and there.
    package func named(_ uuid: KeybagUUID) -> Keybag? {
        if let own = try? own(), own.uuid == uuid { return own }
        return known(uuid)
    }

    /// A keybag of that name: ours, or one that was used before and is there now.
    private func known(_ uuid: KeybagUUID) -> Keybag? {
        keybags.withLock { known in
            if let own = known.own, own.uuid == uuid { return own }
            if let keybag = known.remembered[uuid] { return keybag }
            let keybag = (try? Keybag.remembered(uuid, warn: ProtectionWarning.print)).map(KeybagOption.forCommands)
            known.remembered[uuid] = keybag
            return keybag
        }
    }
}
