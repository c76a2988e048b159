import DurableFiles
import Keybags
import ProtectionFormat

extension NewFile {
    /// Gives the finished file its name, and makes that last.
    ///
    /// - Throws: `exists` if there is something under that name and `replacing` is false.
    package func publish(replacing: Bool) throws(DataProtectionError) {
        let mark = try markForName()
        defer { withExtendedLifetime(mark) {} }
        try unnamed.publish(replacing: replacing)
    }

    /// Gives the finished file the name of a file that it was made from, as ``UnnamedFile/replace(_:where:)`` does.
    package func replace(
        _ source: ConversionSource, where isInPlace: () throws(DataProtectionError) -> Bool
    ) throws(DataProtectionError) {
        let mark = try markForName()
        defer { withExtendedLifetime(mark) {} }
        try unnamed.replace(source, where: isInPlace)
    }

    /// Gives the finished file its name, with what is promised noted before.
    package func publish(
        replacing: Bool, promising promised: PromisedClass?
    ) throws(DataProtectionError) -> (any ClosePromise)? {
        let promise = try promised?.make(for: self)
        do throws(DataProtectionError) { try publish(replacing: replacing) } catch {
            // Where only the last flush failed, the file is there.
            if (try? file.isNamed(path)) == false { promise?.withdraw() }
            throw error
        }
        return promise
    }

    /// Wraps the finished file's key under the active class keys, makes that last, and marks the file as about to get its name:
    /// `rotate --forget` waits for it.
    ///
    /// - Throws: `keyLost` if those that it is under were forgotten.
    private func markForName() throws(DataProtectionError) -> PublicationMark? {
        while true {
            let generation = head.oldestGeneration
            let mark = PublicationMark(ofKeybag: keybag.directory, generation)
            // Looked at after the mark is set: a search that follows a later rotation waits for it.
            if try followRotation() { try file.flushAll() }
            if head.oldestGeneration == generation { return mark }
        }
    }

    /// The class keys may have been rotated since the file was begun; what is retired now may be forgotten soon.
    ///
    /// - Returns: whether the file was changed.
    /// - Throws: `keyLost` if that has happened: nobody could read the file.
    private func followRotation() throws(DataProtectionError) -> Bool {
        guard try !keybag.isCurrent(head) else { return false }
        // Where it has a temporary name, a pass of the rotation may have found it.
        return try file.withByteLock(OpenFile.slotLock, .exclusive) { () throws(DataProtectionError) in
            let heads = try HeadPair(of: file)
            head = heads.head
            guard try !keybag.isCurrent(head) else { return false }
            do throws(DataProtectionError) { try keybag.rewrap(heads, file, as: protectionClass) } catch .because(
                KeybagFailure.locked)
            {
                return false  // it opens by the retired key, and the next pass finds it
            }
            head = try HeadPair(of: file).head
            return true
        }
    }
}
