import CMemoryFiles
import DataProtection
import Glibc

/// The time while an editor runs: each save is sealed at once, and the plaintext copy is removed when the keybag is locked.
///
/// At a lock, a save that is under way is finished first, however long the editor takes. Then all plaintext is unlinked. The empty directory stays, so that an
/// editor that saves later succeeds. That text is sealed at once as class B, which can be written while locked. A save is lost
/// only if a `kill -9` comes between the save and its sealing, which takes milliseconds.
final class EditSession {
    private let file: EditedFile
    private let directory: EditDirectory
    private let held: HeldPlaintext
    private let saves: Int32
    private let signals: Int32
    private var editor: pid_t = -1
    private let signalsBefore: SignalState
    /// Whether somebody asked us to end.
    private(set) var isEnding = false
    private var endingSince: ContinuousClock.Instant?
    private var isLocked = false
    /// While locked: since when there may be plaintext in the directory.
    private var plaintextSince: ContinuousClock.Instant?
    /// Saved by the editor, and not sealed yet.
    private(set) var hasUnsealed = false

    /// SIGTERM and SIGHUP are ours; SIGINT and SIGQUIT from the terminal are the editor's.
    private static let watched = [SIGCHLD, SIGTERM, SIGHUP]
    /// SIGIO would come when an editor opens its copy just while we look whether anybody has it open.
    private static let ignored = [SIGINT, SIGQUIT, SIGIO]

    /// Starts the editor.
    ///
    /// - Parameter held: notes that the editor has the plaintext, for as long as it lives.
    /// - Throws: status 71.
    init(
        _ file: EditedFile, _ editor: Editor, in directory: EditDirectory, notedBy held: HeldPlaintext
    ) throws(Failure) {
        (self.file, self.directory, self.held) = (file, directory, held)
        var watched = sigset_t(Self.watched)
        signalsBefore = SignalState(blocking: watched, ignoring: Self.ignored)
        signals = signalfd(-1, &watched, Int32(SFD_CLOEXEC) | Int32(SFD_NONBLOCK))
        saves = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
        let events = UInt32(IN_CLOSE_WRITE) | UInt32(IN_MOVED_TO)
        // No call behind one that has failed: it would hide why.
        let isWatching = signals >= 0 && saves >= 0
        guard isWatching, directory.copies.withPlatformString({ inotify_add_watch(saves, $0, events) }) >= 0 else {
            throw Failure(.systemRefused, "cannot watch what the editor does: \(Errno.current.spoken)")
        }
        held.passOn(from: 3)
        self.editor = try editor.start(
            on: file.copyPath(in: directory), temporary: directory.temporary, mask: signalsBefore.mask)
        held.name(process: self.editor)
    }

    deinit {
        close(signals)
        close(saves)
    }

    /// Waits until the editor has ended.
    ///
    /// - Returns: its exit status; 128 + the number of the signal that ended it.
    func run() -> Int32 {
        defer { signalsBefore.restore() }
        var waiting = [signals, saves].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        while true {
            // A ring does not say when a key goes: it is asked once a second.
            let isIdle = poll(&waiting, nfds_t(waiting.count), plaintextSince == nil ? 1000 : 250) == 0
            drain(saves) { _ in hasUnsealed = true }
            drain(signals) { isEnding = isEnding || hasBeenAskedToEnd($0) }
            if hasUnsealed { save() }
            checkLock()
            wipe(isIdle: isIdle)
            if let status = ended() { return status }
            if isEnding { insist() }
        }
    }

    /// Events of a program come before its end.
    private func ended() -> Int32? {
        var status: Int32 = 0
        guard waitpid(editor, &status, WNOHANG) == editor else { return nil }
        drain(saves) { _ in hasUnsealed = true }
        if hasUnsealed { save() }
        let signal = status & 0x7F
        return signal == 0 ? status >> 8 & 0xFF : 128 + signal
    }

    private func hasBeenAskedToEnd(_ record: UnsafeRawBufferPointer) -> Bool {
        let signal = Int32(bitPattern: record.loadUnaligned(as: UInt32.self))
        guard signal != SIGCHLD else { return false }
        kill(editor, signal)
        return true
    }

    private func insist() {
        let now = ContinuousClock.now
        if endingSince == nil { endingSince = now }
        if let endingSince, now - endingSince > .seconds(5) { kill(editor, SIGKILL) }
    }

    /// What cannot be sealed now is tried again every second: the copy stays as long.
    private func save() {
        if isLocked && plaintextSince == nil { plaintextSince = .now }
        do throws(DataProtectionError) { hasUnsealed = try !file.save(directory) } catch { hasUnsealed = true }
    }

    private func checkLock() {
        let wasLocked = isLocked
        let isShutByLock = file.isShutByLock
        // Somebody may have raised its class meanwhile.
        if isShutByLock { held.add(file.path) }
        isLocked = isShutByLock && !file.keybag.isProtectedDataAvailable
        if isLocked && !wasLocked { save() }
        if !isLocked { plaintextSince = nil }
    }

    /// An editor may be half way through a save, with a file that it is going to rename: the copy goes when it has been quiet
    /// for a moment, and in any case after three seconds.
    private func wipe(isIdle: Bool) {
        guard let plaintextSince, !hasUnsealed, isIdle || .now - plaintextSince > .seconds(3) else { return }
        directory.wipe()
        self.plaintextSince = nil
    }

    /// Reads all that is there; `body` gets the beginning of each batch.
    private func drain(_ descriptor: Int32, _ body: (UnsafeRawBufferPointer) -> Void) {
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
            while true {
                // One signal at a time; of saves it is enough to know that there was one.
                let limit = descriptor == signals ? MemoryLayout<signalfd_siginfo>.size : buffer.count
                guard read(descriptor, buffer.baseAddress!, limit) > 0 else { return }
                body(UnsafeRawBufferPointer(buffer))
            }
        }
    }
}
