import DurableFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
public import SystemPackage

extension Keybag {
    /// Writes the keybag to a text file for safe keeping. FORMAT.md §2.9.
    ///
    /// No key is needed. The file opens nothing by itself: only with the recovery code, or with passcode and device key.
    /// - Parameters:
    ///   - path: the name of the text file.
    ///   - isReplacing: whether a file under that name gives way.
    /// - Throws: `noRecoveryCode`: it would not help where passcode or device key are lost; `exists`, `notRegularFile`, `system`.
    public func export(to path: FilePath, replacing isReplacing: Bool = false) throws(DataProtectionError) {
        let loaded = try file.load()
        guard loaded.copy.slot(.recoveryCode) != nil else { throw .because(KeybagFailure.noRecoveryCode(directory)) }
        let export = try withFormat(directory) { () throws(FormatError) in
            try RecoveryExport(of: loaded.bytes, made: Clock.nowInUTC())
        }
        let bytes = try withKeys { () throws(KeyError) in try export.encoded() }
        let written = try OrdinaryFileWriter(path, replacing: isReplacing)
        try bytes.lendBytes { bytes throws(DataProtectionError) in try written.append(bytes) }
        try written.finish()
        ExportRecord(sequence: loaded.copy.sequence).store(in: directory)
    }

    /// Puts a keybag back from its export, as `restore(at:fromExport:warn:)` of the layer above does.
    package static func restore(
        at directory: FilePath, fromExport path: FilePath, followUp: LockFollowUp,
        warn: @escaping @Sendable (ProtectionWarning) -> Void
    ) throws(DataProtectionError) -> Keybag {
        let export = try readExport(path)
        if let there = try KeybagFile(directory: directory).usableUUID() {
            throw .because(KeybagFailure.keybagIntact(directory, there, exported: export.keybag))
        }
        if OwnDirectory.exists(directory) {
            _ = try LowerFile(directory, flags: O_RDONLY | O_DIRECTORY)
            try OwnDirectory.secure(directory: directory, warn: warn)
            try completeFiles(of: export.keybag, in: directory)
            for damaged in try KeybagFile(directory: directory).restore(export.copy) {
                warn(.damagedCopyKept(damaged))
            }
        } else {
            try OwnDirectory.requireUnswappable(directory.directory)
            try makeDirectory(directory, holding: export.copy, of: export.keybag, isNew: false)
        }
        let keybag = try Keybag(at: directory, followUp: followUp, warn: warn)
        KeybagRegistry.note(keybag)
        return keybag
    }

    /// What a keybag's directory has besides its copies. What is there stays: wrong passcodes go on counting.
    private static func completeFiles(of uuid: KeybagUUID, in directory: FilePath) throws(DataProtectionError) {
        if !OwnDirectory.exists(directory.appending(AttemptFile.name)) {
            try AttemptFile(directory: directory, keybag: uuid).create()
        }
        if !OwnDirectory.exists(directory.appending(TransitionFile.name)) {
            try TransitionFile(directory: directory).create(isNew: false)
        }
    }

    private static func readExport(_ path: FilePath) throws(DataProtectionError) -> RecoveryExport {
        let file = try LowerFile(path, flags: O_RDONLY | O_NONBLOCK)
        guard try file.status().st_mode & S_IFMT == S_IFREG else { throw .notRegularFile(path) }
        let text = try file.bytes(at: 0, count: RecoveryExport.maximumLength + 1)
        do throws(FormatError) { return try RecoveryExport(decoding: text) } catch {
            switch error {
            case .notOurs: throw .damaged(path, .recoveryExport, reason: "there is none in it", offset: nil)
            case .damaged(let layer, let reason): throw .damaged(path, layer, reason: reason, offset: nil)
            case .unsupported(let what): throw .unsupported(path, what: what)
            }
        }
    }
}
