import Foundation
import ProtectionFormat
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection
@testable import Keybags

/// What somebody has put into `run/`, or taken away there, and nobody of us.
@Suite struct HostileRunTests {
    private let bag: TestKeybag
    private let run: FilePath
    private let elsewhere: FilePath
    private let listener = LockListener()

    init() throws {
        bag = try TestKeybag(state: .unlocked)
        run = bag.file("run")
        elsewhere = bag.scratchPath.appending("elsewhere")
        mkdir(elsewhere.string, 0o700)
        try elsewhere.appending("empty").overwrite([])
    }

    private var isUntouched: Bool { FileManager.default.fileExists(atPath: elsewhere.appending("empty").string) }

    @Test("A link leads a lock, or erasing, to nobody else's files", arguments: ["run", "run/clients"])
    func links(name: String) throws {
        if name != "run" { mkdir(run.string, 0o700) }
        symlink(elsewhere.string, bag.file(name).string)
        symlink(elsewhere.string, elsewhere.appending("clients").string)
        #expect(try bag.keybag.lock(waiting: 600).clients == [])
        #expect(isUntouched)
        _ = try KeybagErasure(at: bag.directory).perform()
        #expect(isUntouched)
    }

    @Test("A directory in the place of the event wakes all the same, from the first lock on")
    func directoryForState() async throws {
        let heard = Heard<EventRecord?>()
        let observation = try listener.observe(bag.directory, of: bag.keybag.uuid) {
            heard.append($0)
            return nil
        }
        #expect(await heard.waits { !$0.isEmpty })
        mkdir(run.appending("state").string, 0o700)
        try bag.keybag.lock()
        #expect(await heard.waits { $0.count > 1 }, "it was not woken")
        observation.cancel()
    }

    @Test("Cancelling an armed lock fails after a second if the transition file is held; the lock stays armed")
    func heldTransition() throws {
        let armed = try #require(try bag.keybag.armLock(seconds: 1000))
        let file = try LowerFile(bag.file("transition"), flags: O_RDONLY)
        #expect(flock(file.descriptor, LOCK_SH) == 0)
        #expect(throws: DataProtectionError.busy(bag.file("transition"))) { try bag.keybag.cancelArmedLock(armed) }
        #expect(bag.keybag.isStanding(armed))
        try file.close()
        #expect(try bag.keybag.cancelArmedLock(armed))
    }

    @Test("Reading creates no transition file: the keybag may just have been erased")
    func missingTransition() throws {
        try AtomicReplace.remove(bag.file("transition"))
        #expect(bag.keybag.transition.read() == TransitionRecord())
        #expect(!FileManager.default.fileExists(atPath: bag.file("transition").string))
    }

    @Test("However many files there are, nobody looks at them for longer than told, or calls that clean")
    func manyFiles() throws {
        let keybag = bag.keybag
        _ = keybag.client.begin()
        for name in 0..<100 { try run.appending("clients").appending("\(name)").overwrite([1]) }
        #expect(ClientOfKeybag.all(ofKeybag: keybag.directory).areAll)
        #expect(!ClientOfKeybag.all(ofKeybag: keybag.directory, until: Clock.monotonic()).areAll)
        #expect(!LockReport(clients: [], areAll: false).isClean)
    }

    @Test("A listener that waits for a state looks again after a lock and an unlock that it did not see")
    func unseenPair() async throws {
        let other = try TestKeybag()
        let isHeld = Mutex(true)
        // Holds up the one thread of this process, as a machine without a free processor does.
        let holding = try LockListener.shared.observe(other.directory, of: other.keybag.uuid) { _ in
            while isHeld.withLock({ $0 }) { usleep(1_000) }
            return nil
        }
        let looks = Heard<[ProtectedDataEvent]>()
        let observation = try bag.keybag.listen(looks.append)
        try bag.keybag.lock()
        #expect(looks.all == [], "here somebody looks, and waits for an unlock")
        try bag.unlock()
        isHeld.withLock { $0 = false }
        #expect(await looks.waits { !$0.isEmpty })
        withExtendedLifetime((holding, observation)) {}
    }

    #if compiler(>=6.3)
        @Test("However long a lock is to wait, nothing traps")
        func anyPatience() async {
            await #expect(processExitsWith: .success) {
                let bag = try TestKeybag(state: .unlocked)
                for seconds in [Double.infinity, -.infinity, .nan, 1e300, -1] {
                    try #require(bag.keybag.lock(waiting: seconds).isClean)
                }
            }
        }
    #endif
}
