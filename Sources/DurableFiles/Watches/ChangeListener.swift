import Glibc
import POSIXThreads
import Synchronization
import SystemPackage

/// Wakes those in this process who want to know of changes that others make in directories.
///
/// One thread and one inotify(7) a process, of which a user has only 128, asleep in poll(2) until something has changed or a time has come. There is
/// none while nobody listens. Where inotify does not work it looks once a second, and says so. Everything that it says is a hint.
package final class ChangeListener: Sendable {
    package static let shared = ChangeListener()

    /// What is called, first soon after it was given, then after every change at its place. Never by two threads at once; it must not wait for
    /// anything, because everybody else in the process is called after it.
    ///
    /// It returns when it wants to be called again although nothing has happened, in nanoseconds of CLOCK_BOOTTIME; nil: never.
    package typealias Body = @Sendable () -> UInt64?

    /// Listens until it is cancelled or goes.
    package final class Observation: Sendable {
        private let listener: ChangeListener
        private let id: UInt64
        /// A child of fork(2) has its own observers, of which one can have this number.
        private let process = getpid()

        fileprivate init(_ listener: ChangeListener, _ id: UInt64) { (self.listener, self.id) = (listener, id) }

        deinit { cancel() }

        /// Ends it. A call that is under way is not waited for.
        package func cancel() { if process == getpid() { listener.remove(id) } }
    }

    private struct Observer: Sendable {
        let place: WatchedPlace
        let warn: @Sendable (Errno) -> Void
        let body: Body
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

    /// Calls `body` whenever something may have changed at a place.
    ///
    /// - Parameter warn: told why the place has to be looked at once a second, if it has.
    /// - Throws: `system`: no thread could be made.
    package func observe(
        _ place: WatchedPlace, warn: @escaping @Sendable (Errno) -> Void = { _ in }, _ body: @escaping Body
    ) throws(DataProtectionError) -> Observation {
        let observer = Observer(place: place, warn: warn, body: body)
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

    /// The observers, for the thread; nil if the thread is to end because nobody listens.
    private func observers() -> [UInt64: Observer]? {
        state.withLock { state in
            if state.observers.isEmpty { state.doorbell = nil }
            return state.doorbell == nil ? nil : state.observers
        }
    }

    // MARK: the thread

    private func start() throws(DataProtectionError) -> ListenerDoorbell {
        let doorbell = ListenerDoorbell()
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
        var places = WatchedPlaces()
        /// When each wants to be called again.
        var due: [UInt64: UInt64] = [:]
        while let observers = observers() {
            // First watched, then looked at: nothing falls in between.
            for (directory, error) in places.follow(observers.values.map(\.place)) {
                for observer in observers.values where observer.place.directory == directory { observer.warn(error) }
            }
            due = due.filter { observers[$0.key] != nil }
            for (id, observer) in observers.sorted(by: { $0.key < $1.key }) {
                if let time = due[id], time > Clock.bootTime(), !places.changed.contains(observer.place.directory) {
                    continue
                }
                due[id] = observer.body() ?? .max
            }
            doorbell.setTimer(due.values.min().flatMap { $0 == .max ? nil : $0 })
            places.wait(doorbell)
        }
    }
}
