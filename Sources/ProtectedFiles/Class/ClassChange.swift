import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

extension Keybag {
    /// Gives a file, or the default of a directory, a class. Rewrites the wrapped file key only, never data.
    ///
    /// Open handles follow at their next operation. Returns when no slot of the file holds the old wrap any more. The owner
    /// of a file needs no permission to write to it.
    /// - Parameters:
    ///   - protectionClass: the class.
    ///   - path: the file or directory; links are followed.
    ///   - allowsWeaker: false: a class that is weaker than the present one is an error. The two are compared on the open file, under the
    ///     lock of its heads, so that nothing can come in between: not another file under the name, and no other change.
    /// - Throws: `busy` if other files take the name again and again. `locked` unless both the old and the new class key are here. The
    ///   same class needs none; where its key is here, the file is checked: `otherKey`, `keyLost` or `damaged` if it does not have the
    ///   class that its head names. `wouldWeaken`.
    ///   `unverifiedOrigin` for a `completeUnlessOpen` file that somebody else could have made and know the key of.
    public func setProtection(
        _ protectionClass: ProtectionClass, ofItemAt path: FilePath, allowsWeaker: Bool = true
    ) throws(DataProtectionError) {
        if DirectoryDefault.isDirectory(path) {
            return try DirectoryDefault.set(protectionClass, of: path, allowsWeaker: allowsWeaker)
        }
        // A file that loses its name while its lock is waited for is not the one that was meant.
        for _ in 0..<8 {
            let file: LowerFile
            do throws(DataProtectionError) { file = try .forHeads(of: path) } catch {
                // No change, where nothing could be changed.
                guard hasAlready(protectionClass, path) else { throw error }
                return
            }
            let isDone = try file.withByteLock(OpenFile.slotLock, .exclusive, waiting: LowerFile.patience) {
                () throws(DataProtectionError) in
                guard try file.isNamed(path, followingLinks: true) else { return false }
                try change(file, to: protectionClass, allowsWeaker: allowsWeaker)
                return true
            }
            if isDone { return }
        }
        throw .busy(path)
    }

    /// The same for an open file, whatever its name leads to by now.
    ///
    /// - Parameter isOpened: whether a handle on it has opened its file key and its head.
    package func setProtection(
        _ protectionClass: ProtectionClass, of file: LowerFile, allowsWeaker: Bool = true, isOpened: Bool = false
    ) throws(DataProtectionError) {
        try file.withByteLock(OpenFile.slotLock, .exclusive, waiting: LowerFile.patience) {
            () throws(DataProtectionError) in
            try change(file, to: protectionClass, allowsWeaker: allowsWeaker, isOpened: isOpened)
        }
    }

    /// Whether a file of this keybag has a class, and no slot another one.
    private func hasAlready(_ protectionClass: ProtectionClass, _ path: FilePath) -> Bool {
        guard let file = try? LowerFile(regular: path, flags: O_RDONLY),
            (try? file.lockSlot(.shared, waiting: LowerFile.patience)) != nil,
            let heads = try? HeadPair(of: file), !heads.hasStaleWrap,
            (try? refuseForged(heads.head, path)) != nil
        else { return false }
        let name = heads.head.wrap.classKey
        return name.keybag == uuid && name.protectionClass == protectionClass
    }

    /// FORMAT.md §4 rule 12. Under the slot lock.
    package func change(
        _ file: LowerFile, to protectionClass: ProtectionClass, allowsWeaker: Bool = true, isOpened: Bool = false
    ) throws(DataProtectionError) {
        let heads = try HeadPair(of: file)
        let head = heads.head
        guard head.wrap.classKey.keybag == uuid else {
            throw .because(FileFailure.foreignKeybag(file.path, head.wrap.classKey.keybag))
        }
        // `rewrap` authenticates this head, and with it the class that is compared.
        if !allowsWeaker { try protectionClass.requireNotWeaker(than: head.wrap.classKey.protectionClass, file.path) }
        if head.wrap.classKey.protectionClass == protectionClass {
            if !isOpened { try refuseForged(head, file.path) }
            return try ClassChange.removeStaleWrap(heads, file, warn: warn)
        }
        try rewrap(heads, file, as: protectionClass)
    }

    /// A head names its class in clear. Before it is believed, and copied over the other one, the class key has to prove it.
    ///
    /// - Throws: `otherKey` if the class key does not open the file key, `damaged` if the file key does not authenticate the head, `keyLost`;
    ///   `locked` and `keyringUnavailable` if the class key cannot be had.
    package func requireAuthentic(_ head: Head, _ path: FilePath) throws(DataProtectionError) {
        var session = KeySession(self)
        _ = try Self.headKey(session.fileKey(of: head, path: path, .changeClass), authenticating: head, path)
    }

    /// The same, as far as it can be told now: where the class key cannot be had, the name is all there is.
    ///
    /// - Throws: `otherKey`, `damaged`, `keyLost`.
    package func refuseForged(_ head: Head, _ path: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) { try requireAuthentic(head, path) } catch {
            switch error {
            case .damaged, .because(FileFailure.otherKey), .because(KeybagFailure.keyLost): throw error
            default: break
            }
        }
    }

    /// Whether a head names this class or a stronger one. If it does, ``refuseForged(_:_:)`` checks it first. A weaker class is not checked.
    package func isAtLeast(
        _ protectionClass: ProtectionClass, _ head: Head, _ path: FilePath
    ) throws(DataProtectionError) -> Bool {
        guard head.wrap.classKey.protectionClass >= protectionClass else { return false }
        try refuseForged(head, path)
        return true
    }

    private static func headKey(
        _ fileKey: borrowing FileKey, authenticating head: Head, _ path: FilePath
    ) throws(DataProtectionError) -> FileKeys.Kept {
        let headKey: FileKeys.Kept
        do throws(KeyError) { headKey = FileKeys.Kept(try fileKey.headKey(of: head.prefix.fileID)) } catch {
            throw .cryptography(error)
        }
        try withFormat(path) { () throws(FormatError) in try head.authenticate(under: headKey.bytes) }
        return headKey
    }

    /// Puts a new wrap record into both slots, under the active key of a class. Under the slot lock.
    ///
    /// - Parameter isNamed: false: nobody can open the file yet, and it is gone if this process dies. No note is needed.
    package func rewrap(
        _ heads: HeadPair, _ file: LowerFile, as protectionClass: ProtectionClass, isNamed: Bool = true
    ) throws(DataProtectionError) {
        // A lock waits until the old wrap is in no slot.
        let use = client.begin()
        defer { withExtendedLifetime(use) {} }
        let old = heads.head.wrap.classKey.protectionClass
        let bytes = try rewrapped(heads.head, as: protectionClass, path: file.path, use)
        try ClassChange.keepOtherSlot(heads, file, warn: warn)
        // Where a write fails half way, the note stays for the next lock to finish.
        let intent: ClassChangeIntent?
        if !isNamed {
            intent = nil
        } else if protectionClass > old {
            // Where the old class opens while locked, its wrap must not be forgotten by a power cut either.
            let opensWhileLocked = AccessRule.opens(old, in: .locked)
            intent = try ClassChangeIntent(file, in: directory, lasting: opensWhileLocked)
        } else if protectionClass < old {
            // A stronger class's wrap in the stale slot gives nothing away, so that a lowering goes on without a note.
            intent = try? ClassChangeIntent(file, in: directory, lasting: false)
        } else {
            intent = nil  // after a rotation: the next pass finds the slot
        }
        try file.flush()
        try ClassChange.keepAppended(heads, file, warn: warn)
        try file.write(bytes, at: UInt64(heads.target * Head.length))
        try file.flush()
        try file.write(bytes, at: UInt64(heads.inForce * Head.length))
        try file.flush()
        intent?.finished()
    }

    /// The bytes of a head with a new wrap record. No key is left when this returns.
    private func rewrapped(
        _ head: Head, as protectionClass: ProtectionClass, path: FilePath, _ use: KeyUse
    ) throws(DataProtectionError) -> [UInt8] {
        var session = KeySession(self, for: use)
        let fileKey = try session.fileKey(of: head, path: path, .changeClass)
        let headKey = try Self.headKey(fileKey, authenticating: head, path)
        // Rewrapping for the same class stays allowed: it keeps the verdict, and a forged file cannot hold up a rotation.
        if protectionClass != head.wrap.classKey.protectionClass { try session.requireOrigin(of: head, path: path) }
        let verdict = try session.verdict(of: head)
        let wrap = try session.wrap(
            fileKey, of: head.prefix.fileID, as: protectionClass, counter: head.wrap.counter + 1, carrying: verdict,
            path: path, .changeClass)
        do throws(KeyError) {
            return try head.replacing(wrap: wrap, bytes: wrap.sealed(in: head.prefix, under: headKey.bytes)).encoded()
        } catch {
            throw .cryptography(error)
        }
    }
}

extension ProtectionClass {
    /// - Throws: `wouldWeaken` if this class is weaker than `old`, which the file at `path` has.
    package func requireNotWeaker(than old: ProtectionClass, _ path: FilePath) throws(DataProtectionError) {
        guard self >= old else { throw .because(FileFailure.wouldWeaken(path, from: old, to: self)) }
    }
}

/// The keyless half of a class change.
package enum ClassChange {
    /// Finishes a class change that was interrupted: the head in force goes over the one with the old wrap.
    package static func removeStaleWrap(
        _ heads: HeadPair, _ file: LowerFile, warn: (ProtectionWarning) -> Void
    ) throws(DataProtectionError) {
        guard heads.hasStaleWrap else { return }
        try keepOtherSlot(heads, file, warn: warn)
        try file.flush()
        try file.write(heads.slots[heads.inForce], at: UInt64(heads.target * Head.length))
        try file.flush()
    }
}
