import Foundation
import ProtectionKeys
import Synchronization
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// A writer that has chosen the old class key and has not committed yet, as an import that waits for its input, while keys are rotated:
/// who says that no secret needs the old keys any more has waited for it.
@Suite struct StalledWriterTests {
    /// What a look says that begins while the writer stands, and may end when it has committed.
    private static func looking(_ look: @escaping @Sendable (SecretStore) throws -> Int) throws -> Int? {
        let bed = try SecretsBed()
        let found = Mutex<Int?>(nil)
        let ended = DispatchSemaphore(value: 0)
        let another = try bed.another()
        try bed.store.write { database in
            try bed.store.put(.account("kim"), secret("kim"), bed.store.privateGroup, database, heals: false) { _ in
                .whenUnlocked
            }
            try bed.rotate()
            Thread.detachNewThread {
                let count = try? look(another)
                found.withLock { $0 = count }
                ended.signal()
            }
            // As long as a look takes that does not wait; one that does gets its answer afterwards.
            if ended.wait(timeout: .now() + 1) == .success { ended.signal() }
        }
        ended.wait()
        #expect(try bed.store.text(.account("kim")) == "kim")
        return found.withLock { $0 }
    }

    @Test func needingRewrap() throws { #expect(try Self.looking { try $0.needingRewrap() } == 1) }

    @Test func rewrap() throws { #expect(try Self.looking { try $0.rewrap().rewrapped } == 1) }
}
