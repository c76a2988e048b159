import Glibc
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection

@Suite("A listener for changes in a directory")
struct ChangeListenerTests {
    private let bed: FileTestBed
    private let listener = ChangeListener()

    init() throws { bed = try FileTestBed(state: .beforeFirstUnlock) }

    private func directory(_ name: String) throws -> FilePath {
        let path = bed.directory.appending(name)
        try OwnDirectory.make(path)
        return path
    }

    private func observe(
        _ place: WatchedPlace, due: UInt64? = nil
    ) throws -> (Heard<UInt64>, ChangeListener.Observation) {
        let heard = Heard<UInt64>()
        let observation = try listener.observe(place) {
            heard.append(Clock.bootTime())
            return heard.all.count == 1 ? due : nil
        }
        return (heard, observation)
    }

    /// As a bell does: a complete file gets its name.
    private func ring(_ directory: FilePath) throws {
        let new = directory.appending("new")
        try new.overwrite([])
        try AtomicReplace.rename(new, to: directory.appending("bell"))
    }

    @Test("Is called at first, and when something changes there; not when it does elsewhere")
    func onlyThere() async throws {
        let (here, there) = (try directory("here"), try directory("there"))
        let (first, one) = try observe(WatchedPlace(here))
        let (second, other) = try observe(WatchedPlace(there))
        #expect(await first.waits { $0.count == 1 })
        #expect(await second.waits { $0.count == 1 })
        for count in 2...5 {
            try ring(here)
            #expect(await first.waits { $0.count == count })
        }
        #expect(second.all.count == 1)
        try ring(there)
        #expect(await second.waits { $0.count == 2 })
        #expect(first.all.count == 5)
        one.cancel()
        other.cancel()
    }

    @Test("Is called at its time, and others are not called with it")
    func due() async throws {
        let place = WatchedPlace(try directory("here"))
        let due = Clock.bootTime() + 50_000_000
        let (first, one) = try observe(place, due: due)
        let (second, other) = try observe(place)
        #expect(await first.waits { $0.count == 2 })
        #expect(first.all.last.map { $0 >= due } == true)
        #expect(second.all.count == 1)
        one.cancel()
        other.cancel()
    }

    @Test("Two names of one directory, and one directory in the other")
    func sameDirectory() async throws {
        let here = try directory("here")
        let link = bed.directory.appending("link")
        try link.makeSymbolicLink(to: bed.directory)
        let inside = here.appending("inside")
        try OwnDirectory.make(inside)
        let (first, one) = try observe(WatchedPlace(here))
        let (second, two) = try observe(WatchedPlace(link.appending("here")))
        let (third, three) = try observe(WatchedPlace(inside, isMadeAnew: true))
        for heard in [first, second, third] { #expect(await heard.waits { $0.count == 1 }) }
        try ring(here)
        for heard in [first, second] { #expect(await heard.waits { $0.count == 2 }) }
        // The others go on without the first.
        one.cancel()
        try ring(inside)
        #expect(await third.waits { $0.count == 2 })
        try ring(here)
        #expect(await second.waits { $0.count == 3 })
        #expect(first.all.count == 2)
        two.cancel()
        try inside.remove()
        try OwnDirectory.make(inside)
        #expect(await third.waits { $0.count >= 3 })
        let before = third.all.count
        try ring(inside)
        #expect(await third.waits { $0.count > before })
        three.cancel()
    }

    @Test("Looks once a second, and says why once, where it is not to be watched")
    func polled() async throws {
        let heard = Heard<Void>()
        let (warnings, watched) = (Heard<Errno>(), Heard<Int>())
        let isThere = Atomic(false)
        let place = WatchedPlace(try directory("here")) { () throws(Errno) in
            guard isThere.load(ordering: .relaxed) else { throw .notDirectory }
            watched.append(heard.all.count)
            return true
        }
        let observation = try listener.observe(place, warn: warnings.append) {
            heard.append(())
            return nil
        }
        #expect(await heard.waits { $0.count > 2 })
        #expect(warnings.all == [.notDirectory])
        isThere.store(true, ordering: .relaxed)
        #expect(await watched.waits { !$0.isEmpty })
        let before = (watched.all.first ?? 0) + 1
        #expect(await heard.waits { $0.count == before })
        try ring(place.directory)
        #expect(await heard.waits { $0.count == before + 1 })
        observation.cancel()
    }

    @Test("Begins where the process may have no more descriptors, and listens when it may")
    func noDescriptors() async {
        await #expect(processExitsWith: .success) {
            let bed = try FileTestBed(state: .beforeFirstUnlock)
            let limit = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
            var before = rlimit()
            getrlimit(limit, &before)
            var none = rlimit(rlim_cur: 0, rlim_max: before.rlim_max)
            setrlimit(limit, &none)
            let heard = Heard<Void>()
            let observation = try ChangeListener.shared.observe(WatchedPlace(bed.directory)) {
                heard.append(())
                return nil
            }
            // Nothing of Dispatch: it would end the process.
            while heard.all.isEmpty { usleep(1000) }
            setrlimit(limit, &before)
            // Once a second as long as it is not watched.
            var count = 0
            for _ in 0..<20 where count != heard.all.count {
                count = heard.all.count
                try await Task.sleep(for: .seconds(2))
            }
            try #require(heard.all.count == count && count > 1, "it is watched at last: \(heard.all.count)")
            Bell(directory: bed.directory).ring()
            try #require(await heard.waits { $0.count > count })
            observation.cancel()
        }
    }
}
