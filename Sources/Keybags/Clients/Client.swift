import DurableFiles
import Glibc
import KernelKeyring
import POSIXThreads
import ProtectionFormat
import ProtectionKeys
import Synchronization
import SystemPackage

/// What has something to finish at a lock: writes that are not committed, or pages in the kernel's cache.
package protocol FinishesAtLock: AnyObject, Sendable {
    /// Called at each lock when the keys have gone, and before this process acknowledges it. Its errors are thrown by the next call on the object.
    func finishAtLock()
}

/// This process as one that holds protected files of a keybag open: what it has, and its answer to a lock.
///
/// One for all ``Keybag`` objects of a directory; it lives as long as one of them or a handle does.
package final class Client: Sendable {
    private struct Ledger {
        var handles: [ProtectionClass: UInt32] = [:]
        var names = NamedFiles()
        /// The counter of the last lock that was heard.
        var heard: UInt64 = 0
        /// How many locks were heard. An operation belongs to the lock that comes next.
        var turn: UInt64 = 0
        /// Operations that hold a class key, or a class A file key, and began after the last lock.
        var recent = 0
        /// The same, begun before it.
        var earlier = 0
        /// The counter of the last lock, until nothing from before it is under way.
        var awaited: UInt64?
        /// Threads that commit what was written before the lock.
        var commits = 0
        /// Handles with something to commit, perhaps.
        var writers: [ObjectIdentifier: WeakHandle] = [:]
        /// Whether class keys A and B were there at the last look.
        var hadKeys = false
        /// Whether this process was made known.
        var isSaid = false

        /// The counter of the last lock, once, if nothing from before it is left.
        mutating func answer() -> UInt64? {
            guard earlier == 0, commits == 0 else { return nil }
            defer { awaited = nil }
            return awaited
        }

        /// The handles with something to commit. A thread that commits it is counted from now on.
        mutating func takeWriters() -> [any FinishesAtLock] {
            defer { writers = [:] }
            let handles = writers.values.compactMap(\.handle)
            if !handles.isEmpty { commits += 1 }
            return handles
        }
    }
    private struct WeakHandle: @unchecked Sendable {  // `weak var` is read and written under the ledger's lock
        weak var handle: (any FinishesAtLock)?
    }

    /// What others see.
    private struct Shown {
        /// Nil: not made yet, or it cannot be made.
        var file: ClientFile?
        var unnoted: UnnotedClient?
        /// The counter of the last lock that was answered, whether there was a file then or not.
        var acknowledged: UInt64 = 0
        /// By which it hears of locks.
        var observation: LockListener.Observation?
    }

    private let directory: FilePath
    private let uuid: KeybagUUID
    private let ledger = Mutex(Ledger())
    private let shown = Mutex(Shown())
    private let owner = getpid()

    private struct Place: Hashable {
        let directory: FilePath
        /// Another keybag can have taken the place of one.
        let uuid: KeybagUUID
    }
    private struct Known: @unchecked Sendable {  // `weak var` is read and written under the lock of `all`
        weak var client: Client?
    }
    private static let all = Mutex<[Place: Known]>([:])

    /// The client of the keybag in a directory.
    package static func of(_ directory: FilePath, _ uuid: KeybagUUID) -> Client {
        let place = Place(directory: directory, uuid: uuid)
        return all.withLock { all in
            if let client = all[place]?.client { return client }
            all = all.filter { $0.value.client != nil }
            let client = Client(place)
            all[place] = Known(client: client)
            return client
        }
    }

    private init(_ place: Place) { (directory, uuid) = (place.directory, place.uuid) }

    deinit { if getpid() == owner { shown.withLock { $0.file?.remove() } } }

    /// Whether another process has files open and could not say so.
    package var isAnyoneUnnoted: Bool { UnnotedClient.isThere(inKeybag: directory, besides: shown.withLock(\.unnoted)) }

    // MARK: what this process has

    /// A handle on a class A or B file begins; see ``HandleEntry``.
    ///
    /// - Returns: where the file is named, if it is.
    fileprivate func add(_ protectionClass: ProtectionClass, _ path: FilePath) -> Int? {
        let slot = ledger.withLock { ledger in
            ledger.handles[protectionClass, default: 0] += 1
            return protectionClass == .completeUnlessOpen ? ledger.names.add(path) : nil
        }
        say(slot)
        return slot
    }

    /// It ends, or its file has another class.
    fileprivate func remove(_ protectionClass: ProtectionClass, _ slot: Int?) {
        ledger.withLock { ledger in
            ledger.handles[protectionClass, default: 1] -= 1
            if let slot { ledger.names.remove(slot) }
        }
        say(slot)
    }

    /// A handle has written: a lock commits that.
    package func noteWriting(_ handle: any FinishesAtLock) {
        ledger.withLock { $0.writers[ObjectIdentifier(handle)] = WeakHandle(handle: handle) }
    }

    /// The handle goes.
    package func forgetWriting(_ handle: ObjectIdentifier) {
        ledger.withLock { _ = $0.writers.removeValue(forKey: handle) }
    }

    /// Begins an operation that takes class key A or B from the ring. To be called before the ring is read.
    ///
    /// An operation that begins after a lock finds no key and does not hold up the answer. So a program that keeps trying to read a
    /// locked file answers as fast as an idle one.
    package func begin() -> KeyUse {
        let (turn, isFirst) = ledger.withLock { ledger in
            ledger.recent += 1
            defer { ledger.isSaid = true }
            return (ledger.turn, !ledger.isSaid)
        }
        if isFirst { say() }
        return KeyUse(self, turn)
    }

    fileprivate func end(_ turn: UInt64) {
        acknowledge(
            ledger.withLock { ledger in
                if turn == ledger.turn { ledger.recent -= 1 } else { ledger.earlier -= 1 }
                return ledger.answer()
            })
    }

    /// Writes down the counts, and the name in one place; makes the file the first time.
    private func say(_ slot: Int? = nil) {
        guard getpid() == owner else { return }
        shown.withLock { shown in
            // Read under this lock, so that the last one to write says what is true.
            let (handles, paths) = ledger.withLock { ($0.handles, $0.names.paths) }
            var changed = slot.map { [$0] } ?? []
            if shown.file?.isThere != true {
                let record = shown.file?.record ?? ClientRecord(pid: owner, program: Self.program)
                shown.file?.remove()
                shown.file = try? ClientFile(inKeybag: directory, record: record)
                let isNeeded = shown.file == nil && handles.values.contains { $0 > 0 }
                shown.unnoted = isNeeded ? shown.unnoted ?? UnnotedClient(ofKeybag: directory) : nil
                changed = paths.indices.filter { paths[$0] != nil }
            }
            for slot in changed { shown.file?.name(paths[slot], at: slot) }
            shown.file?.update { record in
                record.completeHandles = handles[.complete] ?? 0
                record.unlessOpenHandles = handles[.completeUnlessOpen] ?? 0
                record.acknowledged = shown.acknowledged
            }
            guard shown.file != nil, shown.observation == nil else { return }
            shown.observation = try? LockListener.shared.observe(directory, of: uuid) { [weak self] in self?.look($0) }
        }
    }

    // MARK: a lock

    /// Answers, woken by something that has perhaps happened.
    ///
    /// - Returns: when to look again although nobody wakes it.
    private func look(_ event: EventRecord?) -> UInt64? {
        // Not where the keybag is being erased: that takes `run` away too.
        if shown.withLock({ $0.file?.isThere == false }),
            (try? KeybagFile(directory: directory).isAnythingThere()) != false
        {
            say()
        }
        var counter = event?.counter ?? 0
        // The event is written when the keys have gone, if it can be. The counter is raised before that: it says something as
        // soon as they are not there.
        let transition = TransitionFile(directory: directory)
        let raised = transition.read().counter
        if raised > counter, (try? RingKeys(uuid).unlocked.find()) == nil { counter = raised }
        // Nobody listened at the last lock, so that it left no event, and it was long ago.
        if event == nil, let rested = transition.readAtRest() { counter = rested.counter }
        answer(counter)
        return lookForExpiry(transition)
    }

    /// When the kernel's timeout has taken the keys away nobody is told, and nobody waits for an answer. What a lock does here is done all the
    /// same: what was written is committed, and what others have cached goes.
    ///
    /// - Returns: when the keys may expire; nil: never, or they are not there.
    private func lookForExpiry(_ transition: TransitionFile) -> UInt64? {
        RingKeys(uuid).clearExpired(in: directory)
        let (isThere, writers) = ledger.withLock { ledger in
            // Under the lock: an answer from before an unlock must not count as the end of the keys that came with it.
            let hadKeys = ledger.hadKeys
            ledger.hadKeys = RingKeys(uuid).holdsUnlocked
            return (ledger.hadKeys, hadKeys && !ledger.hadKeys ? ledger.takeWriters() : [])
        }
        if !writers.isEmpty { commit(writers) }
        guard isThere else { return nil }
        let (record, now) = (transition.read(), Clock.bootTime())
        let ends = Clock.mayBeThisBoot(record.bootID) ? [record.deadline, record.limit] : []
        return KeyTimeout.nextLook(ends + [RingPlaces(directory: directory).expiryHere ?? 0], now: now)
    }

    /// Answers the lock that raised the counter to `counter`, when all that began before now has ended and what was written
    /// is committed. Waits for nothing.
    package func answer(_ counter: UInt64) {
        let writers = ledger.withLock { ledger -> [any FinishesAtLock] in
            guard counter > ledger.heard else { return [] }
            ledger.heard = counter
            ledger.earlier += ledger.recent
            ledger.recent = 0
            ledger.turn += 1
            ledger.awaited = counter
            return ledger.takeWriters()
        }
        if writers.isEmpty { return acknowledge(ledger.withLock { $0.answer() }) }
        commit(writers)
    }

    private func commit(_ writers: [any FinishesAtLock]) {
        // The thread that receives the lock event must not wait for a disk, unless no other thread can be made.
        BackgroundWork.perform { [self] in
            for handle in writers { handle.finishAtLock() }
            acknowledge(
                ledger.withLock { ledger in
                    ledger.commits -= 1
                    return ledger.answer()
                })
        }
    }

    private func acknowledge(_ counter: UInt64?) {
        guard let counter, getpid() == owner else { return }
        shown.withLock { shown in
            let acknowledged = max(shown.acknowledged, counter)
            shown.acknowledged = acknowledged
            shown.file?.update { $0.acknowledged = acknowledged }
        }
    }

    /// The last component of the executable's path.
    private static let program: String = {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        guard count > 0 else { return "?" }
        let path = buffer[..<count].map { UInt8(bitPattern: $0) }
        return String(decoding: path.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
    }()
}

/// An operation that has class key A or B, or a class A file key, in memory; ends with its last reference.
package final class KeyUse: Sendable {
    private let client: Client
    private let turn: UInt64

    fileprivate init(_ client: Client, _ turn: UInt64) { (self.client, self.turn) = (client, turn) }

    deinit { client.end(turn) }
}

/// An open handle on a class A or B file, counted as long as it lives.
package final class HandleEntry: Sendable {
    package let client: Client
    package let protectionClass: ProtectionClass
    private let slot: Int?

    package init(_ client: Client, _ protectionClass: ProtectionClass, _ path: FilePath) {
        (self.client, self.protectionClass) = (client, protectionClass)
        slot = client.add(protectionClass, path)
    }

    deinit { client.remove(protectionClass, slot) }
}
