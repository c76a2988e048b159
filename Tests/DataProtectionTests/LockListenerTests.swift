import Glibc
import ProtectionFormat
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Waking a lock listener")
struct LockListenerTests {
    private let listener = LockListener()

    private func observe(_ bag: TestKeybag) throws -> (Heard<EventRecord?>, LockListener.Observation) {
        let heard = Heard<EventRecord?>()
        let observation = try listener.observe(bag.directory, of: bag.keybag.uuid, warn: bag.warnings.append) {
            heard.append($0)
            return nil
        }
        return (heard, observation)
    }

    @Test("By every transition, with what it was, when it is due, and its number")
    func transitions() async throws {
        let bag = try TestKeybag()
        let (heard, observation) = try observe(bag)
        #expect(await heard.waits { !$0.isEmpty }, "called at first too")
        try bag.unlock()
        #expect(await heard.waits { $0.last??.kind == .didBecomeAvailable })
        let armed = try #require(try bag.keybag.armLock(seconds: 100))
        #expect(await heard.waits { $0.last??.kind == .willBecomeUnavailable })
        #expect(heard.all.last??.deadline == armed.deadline)
        #expect(heard.all.last??.bootID == Clock.bootID())
        try bag.keybag.cancelArmedLock()
        #expect(await heard.waits { $0.last??.kind == .didBecomeAvailable })
        #expect(heard.all.last??.deadline == 0)
        try bag.keybag.lock()
        #expect(await heard.waits { $0.last??.kind == .didBecomeUnavailable })
        #expect(heard.all.last??.counter == bag.keybag.transition.read().counter)
        try bag.unlock(forSeconds: 1000)
        #expect(await heard.waits { $0.last??.kind == .didBecomeAvailable })
        #expect(heard.all.last??.deadline == bag.keybag.transition.read().limit)
        #expect(bag.warnings.unusual == [])
        observation.cancel()
    }

    @Test("After `run` was removed too, though somebody has a file open that was in it")
    func removedDirectory() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let (heard, observation) = try observe(bag)
        #expect(await heard.waits { !$0.isEmpty })
        let run = RunDirectory(of: bag.directory).path
        try bag.keybag.lock()
        #expect(await heard.waits { $0.last??.kind == .didBecomeUnavailable })
        let kept = try LowerFile(run.appending("state"), flags: O_RDONLY)
        try run.remove()
        #expect(await heard.waits { _ in (try? run.isRegularFile()) != nil }, "it is made anew")
        try bag.unlock()
        #expect(await heard.waits { $0.last??.kind == .didBecomeAvailable })
        observation.cancel()
        try kept.close()
    }

    @Test("By a second lock too, though it changes nothing: its number is another one")
    func secondLock() async throws {
        let bag = try TestKeybag(state: .locked)
        let (heard, observation) = try observe(bag)
        #expect(await heard.waits { !$0.isEmpty })
        let before = bag.keybag.transition.read().counter
        try bag.keybag.lock()
        #expect(await heard.waits { $0.last??.counter == before + 1 })
        observation.cancel()
    }

    @Test("By nothing else: it sleeps while nothing happens")
    func sleeps() async throws {
        let bag = try TestKeybag()
        let (heard, observation) = try observe(bag)
        #expect(await heard.waits { !$0.isEmpty })
        let before = heard.all.count
        try await Task.sleep(for: .milliseconds(2500))
        #expect(heard.all.count == before, "who polls would look twice")
        observation.cancel()
    }

    @Test("At the time that it asked for")
    func timer() async throws {
        let bag = try TestKeybag()
        let heard = Heard<Bool>()
        let due = Clock.bootTime() + 50_000_000
        let observation = try listener.observe(bag.directory, of: bag.keybag.uuid) { _ in
            heard.append(Clock.bootTime() >= due)
            return Clock.bootTime() >= due ? nil : due
        }
        #expect(await heard.waits { $0.last == true })
        #expect(heard.all.count <= 3, "and not all the time before that")
        observation.cancel()
    }

    @Test("The thread is there as long as somebody listens, and comes back")
    func thread() async throws {
        let bag = try TestKeybag()
        for _ in 0..<3 {
            #expect(!listener.isListening)
            let (first, one) = try observe(bag)
            let (second, other) = try observe(bag)
            #expect(await first.waits { !$0.isEmpty })
            one.cancel()
            #expect(await second.waits { !$0.isEmpty })
            #expect(listener.isListening)
            let before = second.all.count
            try bag.keybag.lock()
            #expect(await second.waits { $0.count > before })
            other.cancel()
            let gone = Heard<Void>()
            #expect(await gone.waits { _ in !listener.isListening })
        }
    }

    @Test("Several keybags at once, each by its own")
    func severalKeybags() async throws {
        let bags = try (0..<3).map { _ in try TestKeybag(state: .unlocked) }
        let all = try bags.map { try observe($0) }
        for (bag, (heard, _)) in zip(bags, all) {
            #expect(await heard.waits { !$0.isEmpty })
            try bag.keybag.lock()
            #expect(await heard.waits { $0.last??.kind == .didBecomeUnavailable })
            #expect(heard.all.last??.keybag == bag.keybag.uuid)
        }
        for (_, observation) in all { observation.cancel() }
    }

    @Test("Also when run/ is removed and comes back, or is moved away")
    func runRemoved() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let run = bag.file("run")
        let (heard, observation) = try observe(bag)
        #expect(await heard.waits { !$0.isEmpty })
        let nothing = Heard<Void>()
        for isMoved in [false, true, false] {
            if isMoved { try AtomicReplace.rename(run, to: bag.file("away")) } else { try run.remove() }
            #expect(await nothing.waits { _ in OwnDirectory.exists(run) }, "who listens makes it")
            try bag.keybag.lock()
            #expect(await heard.waits { $0.last??.kind == .didBecomeUnavailable })
            try bag.unlock()
            #expect(await heard.waits { $0.last??.kind == .didBecomeAvailable })
        }
        #expect(bag.warnings.unusual == [])
        observation.cancel()
    }

    @Test("Once a second, with a warning, where run/ is not ours to use", arguments: ["link", "file"])
    func polled(what: String) async throws {
        let bag = try TestKeybag(state: .unlocked)
        let run = bag.file("run")
        if what == "link" { try run.makeSymbolicLink(to: bag.scratchPath) } else { try run.overwrite([]) }
        let before = try bag.scratchPath.names()
        let (heard, observation) = try observe(bag)
        try bag.keybag.lock()
        #expect(await heard.waits { $0.count > 2 })
        #expect(heard.all.allSatisfy { $0 == nil })
        #expect(bag.warnings.unusual.map(\.caseName) == ["lockStatePolled"], "once")
        #expect(try bag.scratchPath.names() == before, "nothing is made elsewhere")
        // When it can be watched it is.
        try run.remove()
        #expect(await heard.waits { _ in OwnDirectory.exists(run) })
        try bag.unlock()
        #expect(await heard.waits { $0.last??.kind == .didBecomeAvailable })
        observation.cancel()
    }

    @Test("A hint that cannot be written hinders no lock, and wakes all the same")
    func unwritable() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let (heard, observation) = try observe(bag)
        #expect(await heard.waits { !$0.isEmpty })
        try bag.unlock()
        #expect(await heard.waits { $0.last! != nil })
        try OwnDirectory.make(bag.file("run").appending("state.new"))
        try bag.keybag.lock()
        #expect(try bag.keybag.state() == .locked)
        #expect(await heard.waits { $0.last! == nil })
        observation.cancel()
    }

    @Test("Nothing is made for nobody: without run/ nobody listens")
    func nobody() throws {
        let bag = try TestKeybag(state: .unlocked)
        try bag.keybag.lock()
        #expect(!OwnDirectory.exists(bag.file("run")))
    }

    @Test("A malformed record, or one of another keybag, is read as no event")
    func garbage() async throws {
        let (bag, other) = (try TestKeybag(), try TestKeybag())
        for bag in [bag, other] {
            try RunDirectory(of: bag.directory).make()
            try bag.unlock()
        }
        let state = bag.file("run").appending("state")
        let genuine = try state.contents()
        #expect(EventFile(of: bag.directory).read() != nil)
        for bytes in [[], Array(genuine.dropLast()), genuine + [0], [UInt8](repeating: 0, count: 96)] {
            try state.overwrite(bytes)
            #expect(EventFile(of: bag.directory).read() == nil)
        }
        try state.overwrite(other.file("run").appending("state").contents())
        let (heard, observation) = try observe(bag)
        #expect(await heard.waits { !$0.isEmpty })
        #expect(heard.all.allSatisfy { $0 == nil })
        observation.cancel()
    }

    @Test("Nobody makes run/ where a keybag was erased, although somebody listens")
    func erased() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let (heard, observation) = try observe(bag)
        #expect(await heard.waits { !$0.isEmpty })
        #expect(try KeybagErasure(at: bag.directory).perform() == [])
        #expect(await heard.waits { $0.count > 1 })
        #expect(await heard.waits { _ in bag.warnings.unusual.map(\.caseName) == ["lockStatePolled"] })
        #expect(!OwnDirectory.exists(bag.directory))
        observation.cancel()
    }
}
