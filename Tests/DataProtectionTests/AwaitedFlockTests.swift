import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection

@Suite("flock(2) that is waited for")
struct AwaitedFlockTests {
    private let scratch = ScratchDirectory()
    private var path: FilePath { scratch.path.appending("file") }

    private static let second: UInt64 = 1_000_000_000
    private static let aLongTime = 600 * second

    private func opened() throws -> LowerFile { try LowerFile(path, flags: O_RDWR | O_CREAT) }

    /// The file, held by this test.
    private func held() throws -> LowerFile {
        let file = try opened()
        #expect(flock(file.descriptor, LOCK_EX | LOCK_NB) == 0)
        return file
    }

    private static func isFree(_ file: LowerFile) -> Bool { flock(file.descriptor, LOCK_EX | LOCK_NB) == 0 }

    @Test("Is taken at once where nobody has it, and given back while the file stays open")
    func free() throws {
        let (one, other) = (try opened(), try opened())
        #expect(try one.flocked(until: 0) === one)
        #expect(!Self.isFree(other))
        one.giveBackFlock()
        #expect(Self.isFree(other))
    }

    @Test("Comes when its holder gives it back")
    func waits() throws {
        let holder = try held()
        let waiting = try opened()
        let isWaiting = Mutex(false)
        Thread.detachNewThread {
            while !isWaiting.withLock({ $0 }) { usleep(1_000) }
            usleep(20_000)
            holder.giveBackFlock()
        }
        isWaiting.withLock { $0 = true }
        let mine = try #require(try waiting.flocked(until: Clock.monotonic() + Self.aLongTime))
        #expect(!Self.isFree(try opened()))
        mine.giveBackFlock()
        #expect(Self.isFree(try opened()))
    }

    @Test("Given up, it is kept by nobody when it comes at last, though every file is closed")
    func givenUp() throws {
        let holder = try held()
        #expect(try opened().flocked(until: 0) == nil)
        #expect(try opened().flocked(until: Clock.monotonic() + Self.second / 50) == nil)
        holder.giveBackFlock()
        let other = try opened()
        // Were it kept, this test would not end.
        while !Self.isFree(other) { usleep(1_000) }
    }

    @Test("Given up and wanted again, it has kept its place")
    func wantedAgain() throws {
        let holder = try held()
        #expect(try opened().flocked(until: 0) == nil)
        Thread.detachNewThread {
            usleep(50_000)
            holder.giveBackFlock()
        }
        let mine = try #require(try opened().flocked(until: Clock.monotonic() + Self.aLongTime))
        #expect(!Self.isFree(try opened()))
        mine.giveBackFlock()
        #expect(Self.isFree(try opened()))
    }

    @Test("Given up by a reader and wanted by a writer, it comes with a file that can be written to")
    func otherAccess() throws {
        let holder = try held()
        #expect(try LowerFile(path, flags: O_RDONLY).flocked(until: 0) == nil)
        Thread.detachNewThread {
            usleep(50_000)
            holder.giveBackFlock()
        }
        let mine = try #require(try opened().flocked(until: Clock.monotonic() + Self.aLongTime))
        try mine.write([1], at: 0)
        #expect(!Self.isFree(try opened()))
        mine.giveBackFlock()
    }

    @Test("Several threads of one process each get it once")
    func severalThreads() throws {
        let holder = try held()
        let count = Mutex(0)
        let ended = DispatchSemaphore(value: 0)
        for _ in 0..<8 {
            Thread.detachNewThread { [self] in
                if let mine = try? opened().flocked(until: Clock.monotonic() + Self.aLongTime) {
                    count.withLock { $0 += 1 }
                    mine.giveBackFlock()
                }
                ended.signal()
            }
        }
        holder.giveBackFlock()
        for _ in 0..<8 { ended.wait() }
        #expect(count.withLock { $0 } == 8)
        #expect(Self.isFree(try opened()))
    }

    @Test("Its holders are named")
    func holders() throws {
        let file = try opened()
        #expect(file.flockHolders() == [])
        let holder = try held()
        #expect(file.flockHolders() == [getpid()])
        #expect(try file.flocked(until: 0) == nil)
        #expect(file.flockHolders() == [getpid()], "who waits is no holder")
        holder.giveBackFlock()
    }

    #if compiler(>=6.3)
        @Test("However often it is tried in vain, a process has one thread and one descriptor for it")
        func oneThread() async {
            await #expect(processExitsWith: .success) {
                let scratch = ScratchDirectory()
                let path = scratch.path.appending("file")
                let holder = try LowerFile(path, flags: O_RDWR | O_CREAT)
                #expect(flock(holder.descriptor, LOCK_EX) == 0)
                func counts() throws -> [Int] {
                    try ["/proc/self/task", "/proc/self/fd"].map {
                        try FileManager.default.contentsOfDirectory(atPath: $0).count
                    }
                }
                func tryInVain() throws {
                    #expect(try LowerFile(path, flags: O_RDWR).flocked(until: 0) == nil)
                }
                try tryInVain()
                let first = try counts()
                for _ in 0..<20 { try tryInVain() }
                #expect(try counts() == first)
                holder.giveBackFlock()
                while try counts()[1] >= first[1] { usleep(1_000) }
            }
        }

        @Test("Where the system makes no thread it comes too, and is given up in time")
        func noThread() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let path = home.appending("file")
                let holder = try LowerFile(path, flags: O_RDWR | O_CREAT)
                try #require(flock(holder.descriptor, LOCK_EX) == 0)
                let isWaiting = Mutex(false)
                Thread.detachNewThread {
                    while !isWaiting.withLock({ $0 }) { usleep(1_000) }
                    usleep(50_000)
                    holder.giveBackFlock()
                }
                try AnotherUser.forbidThreads()
                let inVain = try LowerFile(path, flags: O_RDWR).flocked(until: Clock.monotonic() + 20_000_000)
                #expect(inVain == nil)
                isWaiting.withLock { $0 = true }
                let mine = try LowerFile(path, flags: O_RDWR).flocked(until: Clock.monotonic() + 600_000_000_000)
                #expect(mine != nil)
                let isFree = try flock(LowerFile(path, flags: O_RDWR).descriptor, LOCK_EX | LOCK_NB) == 0
                #expect(!isFree)
                withExtendedLifetime(mine) {}
                try home.remove()
            }
        }
    #endif

    @Test(
        "A file system counts as read-only if it is so for everybody",
        arguments: [
            ("36 35 0:48 / /media/a ro,relatime shared:1 master:2 - tmpfs none ro,size=4k", true),
            ("36 35 0:48 / /media/a ro,relatime - tmpfs none rw,size=4k", false),
            ("36 35 0:48 / /media/a rw,relatime - ext4 /dev/sda1 rw", false),
            ("36 35 0:48 / /media/a ro - squashfs /dev/loop0 ro", true),
            ("37 35 0:48 / /media/a ro - squashfs /dev/loop0 ro", false), ("36", false), ("", false),
            ("36 35 0:48 / /media/a ro - squashfs /dev/loop0", false),
        ])
    func readOnly(line: String, isReadOnly: Bool) {
        let other = "35 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        let table = MountTable(parsing: other + line + "\n" + other)
        #expect(table.mounts.contains { $0.id == 36 && $0.isReadOnlyFileSystem } == isReadOnly)
    }

    @Test("A writable file is not reported as on a read-only file system")
    func writable() throws { #expect(try !opened().isOnReadOnlyFileSystem) }
}
