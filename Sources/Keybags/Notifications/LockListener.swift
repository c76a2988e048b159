import DurableFiles
import Glibc
import POSIXThreads
import ProtectionFormat
import ProtectionKeys
import Synchronization
import SystemPackage

/// Wakes those in this process who want to know when a keybag is locked or unlocked, whoever does it.
///
/// One thread a process, asleep in poll(2) on inotify(7) and a timer; there is none while nobody listens. Where inotify
/// does not work it looks once a second, and says so. Everything that it says is a hint: who is woken asks the ring.
///
/// A file wakes listeners because not every kernel can watch a keyring (KEYCTL_WATCH_KEY). The file is found by its keybag and not
/// by the environment, so every process that can use the keybag hears of a lock, in whichever session.
///
///     let observation = try LockListener.shared.observe(keybag.directory, of: keybag.uuid) { record in
///         …      // the ring has been changed, perhaps
///         return nil
///     }
package final class LockListener: Sendable {
    package static let shared = LockListener()

    /// What is called, first soon after it was given, then after every transition, and now and then without any. Never by
    /// two threads at once; it must not wait for anything, because everybody else in the process is called after it.
    ///
    /// Its argument: the last event, if the file can be read. It returns when it wants to be called again although nothing
    /// has happened, in nanoseconds of CLOCK_BOOTTIME; nil: never.
    package typealias Body = @Sendable (EventRecord?) -> UInt64?

    /// Listens until it is cancelled or goes.
    package final class Observation: Sendable {
        private let listener: LockListener
        private let id: UInt64

        fileprivate init(_ listener: LockListener, _ id: UInt64) { (self.listener, self.id) = (listener, id) }

        deinit { cancel() }

        /// Ends it. A call that is under way is not waited for.
        package func cancel() { listener.remove(id) }
    }

    package struct Observer: Sendable {
        package let keybag: FilePath
        package let uuid: KeybagUUID
        package let warn: @Sendable (ProtectionWarning) -> Void
        package let body: Body
    }

    private struct State {
        /// A child of fork(2) has no thread of ours, and nobody who listens.
        var process = getpid()
        var observers: [UInt64: Observer] = [:]
        var lastID: UInt64 = 0
        /// Of the thread; nil: there is none.
        var doorbell: ListenerDoorbell?
    }
    private let state = Mutex(State())

    package init() {}

    /// Calls `body` whenever something may have happened to the keys of a keybag.
    ///
    /// - Parameters:
    ///   - keybag: the keybag's directory.
    ///   - warn: told if this keybag has to be looked at once a second.
    /// - Throws: `system`: no thread could be made, or there are no file descriptors left.
    package func observe(
        _ keybag: FilePath, of uuid: KeybagUUID, warn: @escaping @Sendable (ProtectionWarning) -> Void = { _ in },
        _ body: @escaping Body
    ) throws(DataProtectionError) -> Observation {
        let observer = Observer(keybag: keybag, uuid: uuid, warn: warn, body: body)
        let id = try state.withLock { state throws(DataProtectionError) in
            if state.process != getpid() { state = State() }
            if let doorbell = state.doorbell { doorbell.ring() } else { state.doorbell = try start() }
            state.lastID += 1
            state.observers[state.lastID] = observer
            return state.lastID
        }
        return Observation(self, id)
    }

    /// Whether the thread is there; for tests.
    package var isListening: Bool { state.withLock { $0.doorbell != nil } }

    private func remove(_ id: UInt64) {
        // What the body holds is let go when the lock has been: it may be an observation too.
        let removed = state.withLock { state in
            guard state.process == getpid(), let removed = state.observers.removeValue(forKey: id) else {
                return nil as Observer?
            }
            state.doorbell?.ring()
            return removed
        }
        withExtendedLifetime(removed) {}
    }

    /// Who listens, for the thread; nil if it is to end, because nobody does.
    private func observers() -> [UInt64: Observer]? {
        state.withLock { state in
            if state.observers.isEmpty { state.doorbell = nil }
            return state.doorbell == nil ? nil : state.observers
        }
    }

    // MARK: the thread

    private func start() throws(DataProtectionError) -> ListenerDoorbell {
        let doorbell: ListenerDoorbell
        do throws(Errno) { doorbell = try ListenerDoorbell() } catch {
            throw .system("/", operation: "eventfd", error)
        }
        do throws(POSIXThread.Refusal) {
            // The application's signals are for its own threads.
            try POSIXThread.detach(blocksSignals: true) { [self] in follow(doorbell) }
        } catch {
            throw .system("/", operation: "pthread_create", Errno(rawValue: error.code))
        }
        return doorbell
    }

    private func follow(_ doorbell: ListenerDoorbell) {
        // The end of an inotify waits for the kernel, in exit(2) too (docs/design/BENCHMARKS.md): a program that is over in a moment
        // does not begin one. What happens meanwhile is seen when everybody is called for the first time, below.
        doorbell.pause(milliseconds: 5)
        var watch = RunWatch()
        while let observers = observers() {
            // First watched, then looked at: nothing falls in between.
            watch.follow(observers.values)
            let files = watch.keybags.reduce(into: [:]) { $0[$1] = EventFile(of: $1).read() }
            var next: UInt64?
            for (_, observer) in observers.sorted(by: { $0.key < $1.key }) {
                let record = files[observer.keybag].flatMap { $0.keybag == observer.uuid ? $0 : nil }
                if let time = observer.body(record) { next = min(next ?? time, time) }
            }
            doorbell.setTimer(next)
            watch.wait(doorbell)
        }
    }
}
