import DurableFiles
import Glibc
import ProtectionFormat
import Synchronization
import SystemPackage

/// Plaintext of `complete` and `unless-open` files that a program was given: a lock cannot take it back, and reports it.
///
/// The note is a file in `run/clients/` of the keybag (FORMAT.md §2.13). It counts as long as this process, or a program that
/// inherited it, lives. On a read-only medium there is no note, and a lock says that it does not know who holds plaintext.
package final class HeldPlaintext: Sendable {
    private struct Note {
        var file: ClientFile?
        var paths: Set<FilePath> = []
    }
    private let note: Mutex<Note>

    /// Begins a note that names no file yet.
    ///
    /// - Parameters:
    ///   - program: the name of the program that gets the plaintext, for people.
    ///   - keybag: the keybag of the files.
    /// - Throws: `system`, for example where the disk is full: a lock would not know of the plaintext.
    package init(by program: String, keybag: Keybag) throws(DataProtectionError) {
        var record = ClientRecord(pid: getpid(), program: program)
        // It has no keys, so every lock is answered before it comes.
        record.acknowledged = .max
        let file: ClientFile?
        do throws(DataProtectionError) { file = try ClientFile(inKeybag: keybag.directory, record: record) } catch {
            guard error.errno == .readOnlyFileSystem else { throw error }
            file = nil
        }
        note = Mutex(Note(file: file))
    }

    /// Notes a file; to be called before its plaintext exists. A file that is noted already is not counted again.
    ///
    /// - Parameter path: the file as the user named it.
    package func add(_ path: FilePath) {
        note.withLock { note in
            guard note.paths.insert(path).inserted else { return }
            let count = note.paths.count
            if count <= OpenFileName.maximumCount { note.file?.name(path, at: count - 1) }
            note.file?.update { $0.plaintextFiles = UInt32(count) }
        }
    }

    /// Lets the programs that this process starts from now on, or becomes by execve(2), keep the note alive.
    ///
    /// - Parameter lowest: their descriptor gets this number or a higher one.
    package func passOn(from lowest: Int32) { note.withLock { $0.file?.passOn(from: lowest) } }

    /// Names another process, which has the plaintext in place of this one.
    ///
    /// - Parameter pid: its process id.
    package func name(process pid: Int32) { note.withLock { $0.file?.update { $0.pid = pid } } }

    /// Ends it: the program has ended. Another one that it started, and that lives, keeps the note.
    package func end() {
        note.withLock { note in
            note.file?.leave()
            note.file = nil
        }
    }
}
