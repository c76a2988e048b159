import Glibc
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection

/// The bell of a list of downloads, or of a store of secrets.
@Suite struct BellTests {
    /// Rings once, and waits until that was heard.
    private static func heard(_ bell: Bell, _ ring: () -> Void) async throws -> Bool {
        let count = Atomic(0)
        let listener = BellListener(bell) { count.add(1, ordering: .relaxed) }
        ring()
        for _ in 0..<1000 where count.load(ordering: .relaxed) == 0 { try await Task.sleep(for: .milliseconds(10)) }
        withExtendedLifetime(listener) {}
        return count.load(ordering: .relaxed) > 0
    }

    @Test func isHeard() async throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let bell = Bell(directory: bed.directory)
        #expect(try await Self.heard(bell) { bell.ring() }, "the first time")
        #expect(try await Self.heard(bell) { bell.ring() }, "in the place of an earlier one")
        #expect(try bell.directory.names() == ["bell"])
    }

    /// A program with no descriptor left, or a disk without room, still wakes those who wait, however often.
    @Test func isHeardWhenNoFileCanBeMade() async {
        await #expect(processExitsWith: .success) {
            let bed = try FileTestBed(state: .beforeFirstUnlock)
            let bell = Bell(directory: bed.directory)
            bell.ring()
            for _ in 1...3 {
                #expect(
                    try await Self.heard(bell) {
                        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
                        var limit = rlimit()
                        getrlimit(resource, &limit)
                        var none = rlimit(rlim_cur: 0, rlim_max: limit.rlim_max)
                        setrlimit(resource, &none)
                        bell.ring()
                        setrlimit(resource, &limit)
                    })
            }
        }
    }
}
