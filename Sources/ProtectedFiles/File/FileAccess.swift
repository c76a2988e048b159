import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// How a handle gets at a file: by which keys of which keybag, and whether it may write. What the file contains is in ``FileContent``.
package struct FileAccess {
    package let isWritable: Bool
    private var keys: HandleKeys

    package var keybag: Keybag { keys.keybag }
    package var path: FilePath { keys.path }
    /// What this process says of the handle while its file has class A or B.
    package var entry: HandleEntry? { keys.entry }

    package init(_ keys: HandleKeys, isWritable: Bool) {
        self.keys = keys
        self.isWritable = isWritable
    }

    /// Wipes the keys.
    mutating func forgetKeys() { keys = HandleKeys(keybag: keybag, path: path) }

    /// The keys for one operation on a file whose head was authenticated.
    ///
    /// - Parameter needsHead: whether the head key is needed.
    mutating func keys(
        for head: Head, _ operation: AttemptedOperation, needsHead: Bool
    ) throws(DataProtectionError) -> FileKeys {
        var session = KeySession(keybag)
        return try keys.keys(for: head, operation, needsHead: needsHead, &session)
    }

    /// The keys of a head that was just read, which they authenticate.
    ///
    /// - Throws: `locked`, `foreignKeybag`, `keyLost`, `otherKey`, `damaged`; `unverifiedOrigin` to a handle that may write.
    mutating func authenticate(
        _ head: Head, _ operation: AttemptedOperation
    ) throws(DataProtectionError) -> FileKeys {
        var session = KeySession(keybag)
        return try authenticate(head, operation, &session)
    }

    /// The same, and who could have made the file.
    mutating func judge(
        _ head: Head, _ operation: AttemptedOperation
    ) throws(DataProtectionError) -> (keys: FileKeys, origin: OriginMark.Verdict) {
        var session = KeySession(keybag)
        let opened = try authenticate(head, operation, &session)
        return (opened, try session.verdict(of: head))
    }

    private mutating func authenticate(
        _ head: Head, _ operation: AttemptedOperation, _ session: inout KeySession
    ) throws(DataProtectionError) -> FileKeys {
        let kept = keys.keptCommitment
        let opened = try keys.keys(for: head, operation, needsHead: true, &session)
        try withFormat(path) { () throws(FormatError) in try head.authenticate(under: opened.head().bytes) }
        // A handle that keeps its file key goes on: it made the file, or the key was judged before.
        if isWritable, kept != head.wrap.commitment { try requireOrigin(of: head, &session) }
        return opened
    }

    /// Refuses a file whose key somebody else may know. That key is not kept either, so the next operation asks again.
    private mutating func requireOrigin(
        of head: Head, _ session: inout KeySession
    ) throws(DataProtectionError) {
        do throws(DataProtectionError) { try session.requireOrigin(of: head, path: path) } catch {
            forgetKeys()
            throw error
        }
    }
}
