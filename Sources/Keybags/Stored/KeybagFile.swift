import DurableFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The two copies of a keybag in its directory. FORMAT.md §2.1.
package struct KeybagFile: Sendable {
    package let directory: FilePath

    /// Of the two copies.
    private let paths: [FilePath]

    package init(directory: FilePath) {
        self.directory = directory
        paths = Self.names.map { directory.appending($0) }
    }

    package static let names = ["keybag.0", "keybag.1"]
    private static let temporaryName = "keybag.new"
    /// What a damaged copy's name gets when it gives way to a good one.
    package static let damagedSuffix = "damaged"

    /// The copy in force, and what there is to repair.
    package struct Loaded {
        package let copy: KeybagCopy
        package let bytes: [UInt8]
        /// Which file it is: 0 or 1.
        package let index: Int
        /// Whether the other file is something else.
        package let needsRepair: Bool
        /// The other copy's file if it is damaged.
        package let damaged: FilePath?
    }

    /// Whether any copy of any user's keybag is in a directory, damaged or not.
    package static func isThere(in directory: LowerDirectory) -> Bool {
        names.contains { name in
            let path = directory.path.appending(name)
            let file = try? directory.file(path.lastComponent!, flags: O_RDONLY, path: path)
            return (try? file?.bytes(at: 0, count: KeybagCopy.magic.count)) == KeybagCopy.magic
        }
    }

    /// Reads both copies and takes the newer valid one.
    package func load() throws(DataProtectionError) -> Loaded {
        var stored: [[UInt8]?] = []
        for name in Self.names { stored.append(try read(name)) }
        guard stored.contains(where: { $0 != nil }) else {
            // A restore that was killed: nobody should be told to make a new one.
            throw try isAnythingThere()
                ? .because(KeybagFailure.keybagDamaged(directory, reason: "only copies that gave way are left"))
                : .because(KeybagFailure.keybagNotFound(directory))
        }
        var copies: [KeybagCopy?] = []
        var reason = ""
        for bytes in stored {
            do throws(FormatError) {
                copies.append(try bytes.map { bytes throws(FormatError) in try KeybagCopy(decoding: bytes) })
            } catch .unsupported(let what) {
                throw .unsupported(directory, what: what)
            } catch {
                if case .damaged(_, let why) = error { reason = why }
                copies.append(nil)
            }
        }
        let index: Int
        switch (copies[0], copies[1]) {
        case (let a?, let b?): index = a.sequence >= b.sequence ? 0 : 1
        case (_?, nil): index = 0
        case (nil, _?): index = 1
        case (nil, nil): throw .because(KeybagFailure.keybagDamaged(directory, reason: reason))
        }
        let isOtherDamaged = stored[1 - index] != nil && copies[1 - index] == nil
        return Loaded(
            copy: copies[index]!, bytes: stored[index]!, index: index,
            needsRepair: stored[0] != stored[1] || OwnDirectory.exists(directory.appending(Self.temporaryName)),
            damaged: isOtherDamaged ? directory.appending(Self.names[1 - index]) : nil)
    }

    /// Makes both files of a new keybag.
    package func create(_ bytes: [UInt8]) throws(DataProtectionError) {
        for name in Self.names { try put(bytes, name) }
    }

    /// Replaces the keybag under the directory's lock: `change` gets what is there now and returns the new bytes.
    ///
    /// - Returns: nil, or why one copy may still be the old one. The new one is in force in any case, and outlasts a power cut.
    /// - Throws: `keybagUnconfirmed` if the new one is in force but may not outlast a power cut; else the old one is in force.
    package func replace(
        _ change: (Loaded) throws(DataProtectionError) -> [UInt8]
    ) throws(DataProtectionError) -> DataProtectionError? {
        var leftOver: DataProtectionError?
        try withDirectoryLock { () throws(DataProtectionError) in
            let loaded = try load()
            let bytes = try change(loaded)
            let spare = Self.names[1 - loaded.index]
            do throws(DataProtectionError) { try put(bytes, spare) } catch {
                // Only behind the rename it is there, and then it is not known whether that lasts.
                guard (try? read(spare)) == bytes else { throw error }
                leftOver = error
            }
            do throws(DataProtectionError) { try put(bytes, Self.names[loaded.index]) } catch {
                if leftOver != nil { throw .because(KeybagFailure.keybagUnconfirmed(directory, error.errno)) }
                leftOver = error
            }
        }
        return leftOver
    }

    /// Makes both copies equal to the one in force, whose MAC the caller has checked.
    package func repair(_ checked: Loaded) throws(DataProtectionError) {
        try withDirectoryLock { () throws(DataProtectionError) in
            let loaded = try load()
            guard loaded.bytes == checked.bytes else { return }  // somebody has replaced it meanwhile
            try put(loaded.bytes, Self.names[1 - loaded.index])
        }
    }

    /// Puts `bytes` in the places of both copies, of which none counts. What is there is kept beside them.
    ///
    /// - Returns: where the damaged copies are now.
    package func restore(_ bytes: [UInt8]) throws(DataProtectionError) -> [FilePath] {
        var kept: [FilePath] = []
        try withDirectoryLock { () throws(DataProtectionError) in
            guard try usableUUID() == nil else { throw .busy(directory) }  // somebody has restored it meanwhile
            for name in Self.names {
                let aside = unusedName("\(name).\(Self.damagedSuffix)")
                do throws(DataProtectionError) {
                    try AtomicReplace.rename(directory.appending(name), to: aside)
                    kept.append(aside)
                } catch .system(_, _, .noSuchFileOrDirectory) {}
            }
            for name in Self.names { try put(bytes, name) }
        }
        return kept
    }

    /// The keybag of the copy that counts; nil if there is none.
    package func usableUUID() throws(DataProtectionError) -> KeybagUUID? {
        do throws(DataProtectionError) { return try load().copy.uuid } catch {
            switch error {
            case .because(KeybagFailure.keybagNotFound), .because(KeybagFailure.keybagDamaged): return nil
            default: throw error
            }
        }
    }

    private func unusedName(_ name: String) -> FilePath {
        var path = directory.appending(name)
        var number = 1
        while OwnDirectory.exists(path) {
            number += 1
            path = directory.appending("\(name)-\(number)")
        }
        return path
    }

    /// Nobody else replaces, restores or erases copies meanwhile.
    private func withDirectoryLock(_ body: () throws(DataProtectionError) -> Void) throws(DataProtectionError) {
        let lock = try LowerFile(directory, flags: O_RDONLY | O_DIRECTORY)
        _ = try retrying(directory, "flock") { flock(lock.descriptor, LOCK_EX) }
        defer { withExtendedLifetime(lock) {} }  // closing the descriptor gives the lock back
        try body()
    }

    private func put(_ bytes: [UInt8], _ name: String) throws(DataProtectionError) {
        try AtomicReplace.write(bytes, to: name, in: directory, through: Self.temporaryName)
    }

    /// The bytes of a copy; nil if it is not there. What is no file, or a file on a bad disk, is a copy without bytes: the
    /// other copy is there for that.
    package func read(_ name: String) throws(DataProtectionError) -> [UInt8]? {
        let path = directory.appending(name)
        do throws(DataProtectionError) {
            let file = try LowerFile(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
            guard try file.status().st_mode & S_IFMT == S_IFREG else { return [] }
            return try file.bytes(at: 0, count: KeybagCopy.maximumLength + 1)
        } catch .system(_, _, let errno) {
            switch errno {
            case .noSuchFileOrDirectory, .notDirectory: return nil
            case .tooManySymbolicLinkLevels, .noSuchAddressOrDevice, .ioError: return []
            default: throw .system(path, operation: "open", errno)
            }
        }
    }

    /// Whether there is any copy, damaged ones and those aside included.
    package func isAnythingThere() throws(DataProtectionError) -> Bool { try !copies().isEmpty }

    /// The same, where a file that only has the name of one that is being written counts for nothing.
    package func isKeybagThere() throws(DataProtectionError) -> Bool {
        try copies().contains { path in
            let isNamedForIt = path.lastComponent?.string == Self.temporaryName
            guard isNamedForIt, let file = try? LowerFile(regular: path, flags: O_RDONLY | O_NOFOLLOW) else {
                return !isNamedForIt
            }
            return (try? file.bytes(at: 0, count: KeybagCopy.magic.count)) == KeybagCopy.magic
        }
    }

    /// All files that are, were or were going to be copies; none where there is no directory.
    package func copies() throws(DataProtectionError) -> [FilePath] {
        do throws(DataProtectionError) {
            return try DirectoryListing.namesIfThere(in: directory).filter(Self.isCopy).map { directory.appending($0) }
        } catch .system(_, _, .notDirectory) {
            return []
        }
    }

    /// Whether a file of that name is, was or was going to be a copy.
    package static func isCopy(_ name: String) -> Bool {
        (names + [temporaryName]).contains(name) || names.contains { name.hasPrefix("\($0).\(damagedSuffix)") }
    }

    /// The damaged ones that gave way to good ones.
    package func copiesAside() throws(DataProtectionError) -> [FilePath] {
        let kept = try copies().filter { copy in
            !(Self.names + [Self.temporaryName]).contains { copy.lastComponent?.string == $0 }
        }
        return kept.sorted { $0.string < $1.string }
    }

    /// The names in copies that do not count but begin as copies do.
    package func uuidsInDamagedCopies() throws(DataProtectionError) -> [KeybagUUID] {
        try copies().compactMap { path in
            guard let file = try? LowerFile(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
                (try? file.requireRegular()) != nil, let bytes = try? file.bytes(at: 0, count: 40)
            else { return nil }
            return KeybagCopy.uuid(in: bytes)
        }
    }

    /// Tells whether a copy has been replaced: by rename(2), so that it is another file.
    package struct Stamp: Hashable {
        /// One of the two files; nil: it is not there.
        private struct File: Hashable {
            let number: UInt
            let size, modified, modifiedNanoseconds, changed, changedNanoseconds: Int
        }
        private let files: [File?]

        fileprivate init(_ paths: [FilePath]) {
            files = paths.map { path in
                var status = stat()
                guard path.withPlatformString({ lstat($0, &status) }) == 0 else { return nil }
                return File(
                    number: UInt(status.st_ino), size: status.st_size, modified: status.st_mtim.tv_sec,
                    modifiedNanoseconds: status.st_mtim.tv_nsec, changed: status.st_ctim.tv_sec,
                    changedNanoseconds: status.st_ctim.tv_nsec)
            }
        }
    }

    /// Which files the two copies are now.
    package func stamp() -> Stamp { Stamp(paths) }
}

extension KeybagFile.Loaded {
    /// A copy that is going to be stored.
    package init(unstored copy: KeybagCopy, _ bytes: [UInt8]) {
        self.init(copy: copy, bytes: bytes, index: 0, needsRepair: false, damaged: nil)
    }
}
