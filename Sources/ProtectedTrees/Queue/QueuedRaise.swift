import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The promise to give a new file a stronger class when the process that created it has closed it.
///
/// It is noted before the file has a name, so that the file of a process that is killed is raised too, and held while the
/// file is open: a `complete` file would be shut for its writer by the next lock.
package final class QueuedRaise: ClosePromise {
    private let keybag: Keybag
    /// Nil when it is over or left to the queue: only then can others work on it.
    private var note: QueueNote?

    /// Nil if the file has the class already.
    ///
    /// - Throws: `wouldWeaken` if it has a stronger one; `system` where it cannot be noted.
    package init?(_ new: NewFile, to protectionClass: ProtectionClass) throws(DataProtectionError) {
        guard new.protectionClass <= protectionClass else {
            throw .because(FileFailure.wouldWeaken(new.path, from: new.protectionClass, to: protectionClass))
        }
        if new.protectionClass == protectionClass { return nil }
        keybag = new.keybag
        let file = try FileReference(new.file, new.fileID, named: new.path)
        note = try QueueNote(
            .raise(file, from: new.protectionClass, to: protectionClass), in: new.keybag.directory)
    }

    /// The same for a finished file that is about to be renamed to `path`. Needs no key.
    package init?(
        _ file: LowerFile, named path: FilePath, to protectionClass: ProtectionClass, keybag: Keybag
    ) throws(DataProtectionError) {
        self.keybag = keybag
        let head = try HeadPair(lookingAt: file).head
        let now = head.wrap.classKey.protectionClass
        guard now <= protectionClass else {
            throw .because(FileFailure.wouldWeaken(path, from: now, to: protectionClass))
        }
        if now == protectionClass {
            try keybag.refuseForged(head, path)
            return nil
        }
        guard let fileID = try file.fileID() else { throw .notProtected(file.path) }
        let reference = try FileReference(file, fileID, named: path)
        note = try QueueNote(.raise(reference, from: now, to: protectionClass), in: keybag.directory)
    }

    /// Raises the file now, or leaves that to the next unlock.
    package func perform() {
        guard var held = note.take() else { return }
        _ = HeldWork(keybag: keybag).perform(&held)
    }

    package func withdraw() { try? note?.remove() }  // a note too many costs one look
}

extension QueuedRaise {
    /// Raises a file that was created with class `from`. What somebody has said by hand since then counts more.
    static func perform(
        _ reference: FileReference, from: ProtectionClass, to: ProtectionClass, _ keybag: Keybag
    ) throws(DataProtectionError) -> QueuedWorkResult.Outcome {
        var file = try reference.find()
        // A file that has replaced it as a whole has inherited its class, and is meant too.
        if file == nil, let replacement = try FileReference.openRegular(reference.path),
            let info = try? ProtectedFileInfo(path: reference.path, file: replacement),
            info.protectionClass == from, info.keybag == keybag.uuid
        {
            file = replacement
        }
        guard let file else { return try reference.gone() }
        // The next lock would shut out a process that is writing to the file.
        guard try file.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(file.path) }
        try file.lockSlot(.exclusive, waiting: LowerFile.patience)
        defer { withExtendedLifetime(file) {} }
        let heads = try HeadPair(of: file)
        let now = heads.head.wrap.classKey.protectionClass
        guard from <= now, now < to else {
            // Somebody may have put that class there while locked, to be rid of this note.
            if heads.head.wrap.classKey.keybag == keybag.uuid { try keybag.requireAuthentic(heads.head, file.path) }
            // A process that gave the file that class may have been killed, or lost power, before the class was on disk and the old wrap removed.
            try file.flush()
            try ClassChange.removeStaleWrap(heads, file, warn: keybag.warn)
            return .unneeded
        }
        try keybag.change(file, to: to)
        return .done
    }
}
