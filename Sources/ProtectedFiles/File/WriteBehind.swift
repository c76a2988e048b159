import Dispatch
import DurableFiles
import Keybags
import POSIXThreads
import Synchronization

/// Writes sealed bytes on another thread if there is one, so that sealing goes on meanwhile: two pieces at most are under way.
///
/// An error is reported by the next call; nothing is acknowledged before ``drain()`` has returned.
package final class WriteBehind: Sendable {
    private let file: LowerFile
    private let work = BackgroundWork()
    private let places = DispatchSemaphore(value: 2)
    /// Pieces below this many bytes are written at once: handing them over would cost more than it saves.
    private static let least = 128 << 10
    private let failure = Mutex<DataProtectionError?>(nil)

    package init(_ file: LowerFile) { self.file = file }

    package func write(_ run: SealedRun, at offset: UInt64) throws(DataProtectionError) {
        try check()
        if run.bytes.count < Self.least { return try file.write(run.bytes, at: offset) }
        places.wait()
        work.add { [self] in
            defer { places.signal() }
            guard failure.withLock({ $0 == nil }) else { return }
            do throws(DataProtectionError) { try file.write(run.bytes, at: offset) } catch {
                failure.withLock { $0 = error }
            }
        }
    }

    /// Waits until everything is written.
    package func drain() throws(DataProtectionError) {
        work.finish()
        try check()
    }

    private func check() throws(DataProtectionError) {
        if let error = failure.withLock({ $0 }) { throw error }
    }
}
