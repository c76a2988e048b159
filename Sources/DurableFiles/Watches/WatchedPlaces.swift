import Glibc
import SystemPackage

/// A directory in which names that come or go are news for somebody.
package struct WatchedPlace: Sendable {
    package let directory: FilePath
    /// Whether it can be removed and made anew while somebody listens: then the directory that it is in is watched too.
    let isMadeAnew: Bool
    /// Called each time before it is watched; makes it, perhaps. Returns whether inotify(7) hears of everything there: not of what other machines
    /// do.
    let prepare: @Sendable () throws(Errno) -> Bool

    package init(
        _ directory: FilePath, isMadeAnew: Bool = false,
        prepare: @escaping @Sendable () throws(Errno) -> Bool = { true }
    ) {
        (self.directory, self.isMadeAnew, self.prepare) = (directory, isMadeAnew, prepare)
    }
}

/// What the thread of ``ChangeListener`` waits for.
struct WatchedPlaces: ~Copyable {
    private struct Watched {
        let place: WatchedPlace
        /// What inotify calls the directory, and the one that it is in.
        var own: Int32?
        var above: Int32?
        /// Why it is looked at once a second, if it is.
        var failure: Errno?
        var hasWarned = false
        /// Whether it is to be watched anew.
        var isStale = true
    }
    private var watch: DirectoryWatch?
    private var watched: [FilePath: Watched] = [:]
    /// Where something may have changed since the last wait.
    private(set) var changed: Set<FilePath> = []

    /// Watches these places, and no others.
    ///
    /// - Returns: those that have to be looked at once a second from now on.
    mutating func follow(_ places: [WatchedPlace]) -> [(FilePath, Errno)] {
        let wanted = Dictionary(places.map { ($0.directory, $0) }) { first, _ in first }
        for (directory, old) in watched where wanted[directory] == nil {
            watched[directory] = nil
            forget(old.own)
            forget(old.above)
        }
        for (directory, place) in wanted where watched[directory] == nil { watched[directory] = Watched(place: place) }
        var failed: [(FilePath, Errno)] = []
        for directory in watched.filter(\.value.isStale).keys.sorted(by: { $0.string < $1.string }) {
            begin(directory)
            changed.insert(directory)
            guard let failure = watched[directory]?.failure else {
                watched[directory]?.hasWarned = false
                continue
            }
            if watched[directory]?.hasWarned == false { failed.append((directory, failure)) }
            watched[directory]?.hasWarned = true
        }
        return failed
    }

    private mutating func begin(_ directory: FilePath) {
        guard var new = watched[directory] else { return }
        let old = new
        (new.own, new.above, new.failure, new.isStale) = (nil, nil, nil, false)
        do throws(Errno) {
            let hearsAll = try new.place.prepare()
            if watch == nil { watch = try DirectoryWatch() }
            if new.place.isMadeAnew { new.above = try watch?.addPlace(of: directory.removingLastComponent()) }
            new.own = try watch?.add(directory)
            if !hearsAll { new.failure = .notSupported }
        } catch {
            new.failure = error
        }
        watched[directory] = new
        for id in [old.own, old.above] where id != new.own && id != new.above { forget(id) }
    }

    /// Several names can lead to one directory, and one be in the other.
    private mutating func forget(_ id: Int32?) {
        guard let id, !watched.values.contains(where: { $0.own == id || $0.above == id }) else { return }
        watch?.remove(id)
    }

    /// Waits until something may have happened; then ``changed`` says where.
    mutating func wait(_ doorbell: ListenerDoorbell) {
        var files = [doorbell.bell, doorbell.timer, watch?.descriptor ?? -1].map {
            pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
        }
        let isPolled = watched.values.contains { $0.failure != nil }
        let result = poll(&files, nfds_t(files.count), isPolled || !doorbell.isWhole ? 1000 : -1)
        let isRefused = result < 0 && errno != EINTR
        // It takes no more descriptors than the process may have, though they are open.
        if isRefused { usleep(1_000_000) }
        let isOver = result == 0 || isRefused
        doorbell.hear()
        changed = []
        for event in watch?.drain() ?? [] { note(event) }
        for (directory, place) in watched where isOver && place.failure != nil { noteStale(directory) }
    }

    private mutating func note(_ event: DirectoryWatch.Event) {
        for (directory, place) in watched {
            let isAbove = place.above == event.watch
            let isOurName = isAbove && directory.lastComponent?.bytes.elementsEqual(event.name) == true
            if event.isOverflow || event.isEnd && (isAbove || place.own == event.watch) || isOurName {
                noteStale(directory)
            } else if place.own == event.watch, event.isPublication {
                changed.insert(directory)
            }
        }
    }

    private mutating func noteStale(_ directory: FilePath) {
        watched[directory]?.isStale = true
        changed.insert(directory)
    }
}
