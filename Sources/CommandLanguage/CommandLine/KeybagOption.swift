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
        return try Keybag(at: location, warn: ProtectionWarning.print).forCommands()
    }
}

extension Keybag {
    /// The class of a new file that a command makes, if neither `--class`, the directory nor the configuration says one.
    ///
    /// The library takes iOS's default, because programs also run while the machine is locked. A person is there.
    package static let fallbackForCommands = ProtectionClass.complete

    /// The same keybag, with that class.
    fileprivate func forCommands() -> Keybag {
        fallbackProtection = Self.fallbackForCommands
        return self
    }
}

/// The keybag of this command, and the remembered ones of files that belong elsewhere.
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

    /// Runs `body` with our keybag or, if the file at `path` belongs to another one that this user knows, with that one.
    package func using<R>(
        for path: FilePath, _ body: (Keybag) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        let keybag: Keybag
        do throws(DataProtectionError) { keybag = try own() } catch {
            guard case .keybagNotFound(let directory) = error, let info = try? ProtectedFileInfo(of: path) else {
                throw error
            }
            guard let other = known(info.keybag) else {
                throw Keybag.wasUsed(in: directory, as: info.keybag) ? error : .foreignKeybag(path, info.keybag)
            }
            return try body(other)
        }
        do throws(DataProtectionError) { return try body(keybag) } catch {
            guard case .foreignKeybag(_, let uuid) = error, let other = known(uuid) else { throw error }
            return try body(other)
        }
    }

    /// The keybag for a file that replaces the one at `path`: a keybag that was named wins, else the old file's.
    package func forReplacing(_ path: FilePath) throws(DataProtectionError) -> Keybag {
        guard !option.isExplicit, let info = try? ProtectedFileInfo(of: path), let other = known(info.keybag) else {
            return try own()
        }
        return other
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
            let keybag = try? Keybag.remembered(uuid, warn: ProtectionWarning.print).forCommands()
            known.remembered[uuid] = keybag
            return keybag
        }
    }
}
