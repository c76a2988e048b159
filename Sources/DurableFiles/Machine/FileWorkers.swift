import Glibc
import POSIXThreads
import Synchronization

/// How many files a run works on at a time, unless somebody says another number: usually more than there are processors, because each thread waits
/// for flushes, and a file system writes its journal once for all that wait.
package let usualThreadCount = min(max(8, 2 * Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))), 32)

/// Work on many files by several threads. The results come back on the caller's thread, in the order of the files; a slow
/// file holds at most `window` others back, so that memory is bounded however long the list is.
package final class FileWorkers<Item: Sendable, Product: Sendable>: @unchecked Sendable {  // a Mutex, or one thread
    private struct Shared {
        var waiting: [(number: Int, item: Item)] = []
        var next = 0
        var done: [Int: Product] = [:]
    }

    private let window: Int

    private let shared = Mutex(Shared())
    /// Counts files that wait, and one more for each thread when there will be none.
    private let available = Semaphore()
    /// Counts files that are done.
    private let finished = Semaphore()
    private let work: @Sendable (Item) -> Product
    private let receive: (Item, Product) -> Void
    private let whileWaiting: () -> Void
    private var threads: [POSIXThread] = []
    private var outstanding: [(number: Int, item: Item)] = []
    private var taken = 0
    private var added = 0

    /// - Parameters:
    ///   - window: how many files are under way at once, those included that are done and not received.
    ///   - prepare: what each thread does first.
    ///   - work: runs on several threads at once.
    ///   - receive: gets each file's product.
    ///   - whileWaiting: called several times a second.
    package init(
        threads count: Int, window: Int = 1024, prepare: @escaping @Sendable () -> Void = {},
        work: @escaping @Sendable (Item) -> Product,
        receive: @escaping (Item, Product) -> Void, whileWaiting: @escaping () -> Void
    ) {
        self.window = window
        self.work = work
        self.receive = receive
        self.whileWaiting = whileWaiting
        for _ in 0..<count {
            // With fewer threads, or none, it takes longer.
            guard
                let thread = try? POSIXThread({ [self] in
                    prepare()
                    workOff()
                })
            else { break }
            threads.append(thread)
        }
    }

    /// Gives a file to the threads, after waiting for room.
    package func add(_ item: Item) {
        guard !threads.isEmpty else { return receive(item, work(item)) }  // no thread could be made
        while outstanding.count - taken >= window { takeNext(waiting: true) }
        outstanding.append((added, item))
        shared.withLock { $0.waiting.append((added, item)) }
        added += 1
        available.signal()
        while takeNext(waiting: false) {}
    }

    /// Waits until all files are done and the threads have ended.
    package func finish() {
        while taken < outstanding.count { takeNext(waiting: true) }
        for _ in threads { available.signal() }
        for thread in threads { thread.join() }
        threads = []
    }

    /// Hands on the product of the oldest file; false if it is not done.
    @discardableResult
    private func takeNext(waiting: Bool) -> Bool {
        guard taken < outstanding.count else { return false }
        let oldest = outstanding[taken]
        while true {
            if let product = shared.withLock({ $0.done.removeValue(forKey: oldest.number) }) {
                taken += 1
                if taken == window {
                    outstanding.removeFirst(taken)
                    taken = 0
                }
                receive(oldest.item, product)
                return true
            }
            guard waiting else { return false }
            finished.wait(seconds: 0.1)
            whileWaiting()
        }
    }

    private func workOff() {
        while true {
            available.wait()
            let file = shared.withLock { shared -> (number: Int, item: Item)? in
                guard shared.next < shared.waiting.count else { return nil }
                defer { shared.next += 1 }
                if shared.next == window {
                    shared.waiting.removeFirst(shared.next)
                    shared.next = 0
                }
                return shared.waiting[shared.next]
            }
            guard let file else { return }
            let product = work(file.item)
            shared.withLock { $0.done[file.number] = product }
            finished.signal()
        }
    }
}

/// sem_overview(7), for threads of this process.
private final class Semaphore: @unchecked Sendable {  // made for threads
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init() { sem_init(semaphore, 0, 0) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func signal() { sem_post(semaphore) }

    func wait() { while sem_wait(semaphore) == -1 && errno == EINTR {} }

    /// Gives up after a time, or at a signal.
    func wait(seconds: Double) {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        time.tv_nsec += Int(seconds * 1e9)
        time.tv_sec += time.tv_nsec / 1_000_000_000
        time.tv_nsec %= 1_000_000_000
        sem_timedwait(semaphore, &time)
    }
}
