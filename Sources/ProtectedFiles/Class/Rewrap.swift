import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
public import SystemPackage

/// What became of one file after its keybag's keys were rotated.
public enum RewrapResult: String, Sendable, Hashable {
    /// Its file key is wrapped under the active class key now, and in no slot under an earlier one.
    case rewrapped
    /// It was already.
    case current
}

extension Keybag {
    /// Wraps a file's key under the active key of its class: both heads, never data. Open handles go on.
    ///
    /// Takes the same few writes for a file of any size. A file that is current is only read, and checked where its class key is
    /// here. The owner of a file needs no permission to write to it.
    /// - Parameter path: a regular file; a link is not followed.
    /// - Throws: `locked` unless the retired and the active key are here; `keyLost`, `foreignKeybag`, `notProtected`,
    ///   `notRegularFile`, `otherKey` and `damaged` for a head that names a class key it is not under, or was changed; `busy` if
    ///   somebody sits on the file's lock, `system`. The file is as it was then.
    @discardableResult
    public func rewrap(fileAt path: FilePath) throws(DataProtectionError) -> RewrapResult {
        try rewrap(LowerFile.toLookAt(path)) { () throws(DataProtectionError) in
            try LowerFile.notFollowing(path) { () throws(DataProtectionError) in
                try .forHeads(of: path, flags: O_NOFOLLOW)
            }
        }
    }

    /// The same of a file that was found by its directory.
    @discardableResult
    package func rewrap(_ entry: DirectoryEntry) throws(DataProtectionError) -> RewrapResult {
        let file = try entry.directory.file(entry.name, flags: O_RDONLY, path: entry.path)
        return try rewrap(file) { () throws(DataProtectionError) in
            try file.forHeads { () throws(DataProtectionError) in
                try entry.directory.file(entry.name, flags: O_RDWR, path: entry.path)
            }
        }
    }

    /// Wraps the key of a finished file without a name under the active class keys, makes that last, and marks the file as about to get its
    /// name: `rotate --forget` waits for it.
    package func markForName(_ file: LowerFile) throws(DataProtectionError) -> PublicationMark? {
        while true {
            let generation = try HeadPair(lookingAt: file).head.oldestGeneration
            let mark = PublicationMark(ofKeybag: directory, generation)
            // Looked at after the mark is set: a search that follows a later rotation waits for it.
            let result = try rewrap(file) { () throws(DataProtectionError) in file }
            if result == .current { return mark }
            try file.flushAll()
        }
    }

    private func rewrap(
        _ seen: LowerFile, _ opening: () throws(DataProtectionError) -> LowerFile
    ) throws(DataProtectionError) -> RewrapResult {
        guard try needsRewrap(seen) else { return .current }
        let file = try opening()
        try file.lockSlot(.exclusive, waiting: LowerFile.patience)
        defer { withExtendedLifetime(file) {} }
        let heads = try HeadPair(of: file)
        if try isCurrent(heads.head) {
            guard heads.hasStaleWrap else { return .current }
            try refuseForged(heads.head, file.path)
            try ClassChange.removeStaleWrap(heads, file, warn: warn)
        } else {
            try rewrap(heads, file, as: heads.head.wrap.classKey.protectionClass)
        }
        return .rewrapped
    }

    /// Whether any slot of a file is under a retired class key, or is not known to be free of one: ``rewrap(fileAt:)`` has
    /// something to do. Reads the heads. A no is proved by the class key, where that is here.
    ///
    /// - Throws: `keyLost` if its class key was forgotten; `otherKey`, `damaged` for a head that only claims an active class key;
    ///   `foreignKeybag`, `notProtected`, `notRegularFile`, `system`.
    public func needsRewrap(fileAt path: FilePath) throws(DataProtectionError) -> Bool {
        try needsRewrap(LowerFile.toLookAt(path))
    }

    /// The same of an open file.
    ///
    /// - Parameter isStrict: whether a no that nothing proves is `locked` or `keyringUnavailable`.
    package func needsRewrap(_ file: LowerFile, isStrict: Bool = false) throws(DataProtectionError) -> Bool {
        let heads = try HeadPair(lookingAt: file)
        let name = heads.head.wrap.classKey
        // Otherwise one changed byte would keep the file from being wrapped anew until its class key is forgotten.
        guard name.keybag == uuid else {
            try refuseOwn(heads.head, file.path, isStrict)
            throw .because(FileFailure.foreignKeybag(file.path, name.keybag))
        }
        guard try current().entry(of: name) != nil else {
            try refuseOwn(heads.head, file.path, isStrict)
            throw .keyLost(self, file.path, name)
        }
        let isCurrent = try isCurrent(heads.head)
        if heads.hasStaleWrap || !isCurrent { return true }
        if isStrict { try requireAuthentic(heads.head, file.path) } else { try refuseForged(heads.head, file.path) }
        return false
    }

    /// Refuses a head that names a class key which this keybag does not have, although one of its class keys opens it.
    ///
    /// - Throws: `otherKey`; where it is strict also `locked` and `keyringUnavailable`, if a class key that might open it cannot be had.
    private func refuseOwn(_ head: Head, _ path: FilePath, _ isStrict: Bool) throws(DataProtectionError) {
        let name = head.wrap.classKey
        let copy = try current()
        var session = KeySession(self)
        var absence: DataProtectionError?
        for own in copy.fileEntries.compactMap(copy.name(of:)) {
            do throws(DataProtectionError) {
                _ = try session.fileKey(of: head, under: own, path: path, .rotateKeys)
            } catch .because(FileFailure.otherKey) {
                continue
            } catch .damaged {
                // It opened; only the commitment is another one.
            } catch {
                absence = absence ?? error
                continue
            }
            throw .because(FileFailure.otherKey(path, name.protectionClass, generation: name.generation))
        }
        if isStrict, let absence { throw absence }
    }

    /// Whether wrap and origin MAC are under active keys.
    package func isCurrent(_ head: Head) throws(DataProtectionError) -> Bool {
        let copy = try current()
        let origin = head.wrap.origin
        let isOriginCurrent =
            origin.key != .classC
            || origin.generation == copy.active(.completeUntilFirstUserAuthentication).generation
        return isOriginCurrent && head.wrap.classKey == copy.activeName(head.wrap.classKey.protectionClass)
    }
}

extension Head {
    /// The earliest generation of class keys that the file needs.
    package var oldestGeneration: UInt32 {
        let origin = wrap.origin
        let generation = wrap.classKey.generation
        return origin.key == .classC ? min(origin.generation, generation) : generation
    }
}
