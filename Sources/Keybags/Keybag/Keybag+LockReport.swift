import DurableFiles
import Glibc
import ProtectionFormat
import SystemPackage

extension Keybag {
    /// The processes that have class A or B files of this keybag open now or hold plaintext of them, or have not answered the
    /// last lock, by process id.
    ///
    /// They say so in the keybag's directory; where that is on a read-only medium nobody can.
    public func clients() -> [KeybagClient] {
        let counter = transition.read().counter
        return LockReport(ClientOfKeybag.all(ofKeybag: directory).clients, true, after: counter).clients
    }

    /// What remains of the last lock: waits until every process has answered it, `seconds` at most.
    ///
    /// For a caller that locks several keybags: evict all keys first, then wait for programs. Empty while the keybag is unlocked.
    package func lockReport(waiting seconds: Double) -> LockReport {
        let counter = transition.read().counter
        client.answer(counter)
        let report = LockReport.remains(ofKeybag: directory, after: counter, waiting: seconds)
        return LockReport(
            clients: report.clients, areAll: report.areAll && !client.isAnyoneUnnoted, mounts: report.mounts)
    }
}

extension LockReport {
    /// The same of a keybag that cannot be opened; nil where its record of locks cannot be read: then it is not known who has answered.
    package static func remains(ofUnopened directory: FilePath, waiting seconds: Double) -> LockReport? {
        guard let counter = TransitionFile(directory: directory).stored()?.counter else { return nil }
        let report = remains(ofKeybag: directory, after: counter, waiting: seconds)
        let isAnyoneUnnoted = UnnotedClient.isThere(inKeybag: directory, besides: nil)
        return LockReport(clients: report.clients, areAll: report.areAll && !isAnyoneUnnoted, mounts: report.mounts)
    }

    fileprivate static func remains(
        ofKeybag directory: FilePath, after counter: UInt64, waiting seconds: Double
    ) -> LockReport {
        let start = Clock.monotonic()
        // Stop looking for clients after a second, however many files lie there.
        let (clients, areAll) = ClientOfKeybag.all(ofKeybag: directory, until: start + 1_000_000_000)
        let end = start + UInt64(1_000_000_000 * (seconds > 0 ? min(seconds, 1e9) : 0))
        var pause: UInt32 = 100
        while clients.contains(where: { $0.owes(counter) }), Clock.monotonic() < end {
            usleep(pause)
            pause = min(pause * 2, 5_000)
        }
        let report = LockReport(clients.filter(\.isAlive), areAll, after: counter)
        let answered = clients.compactMap { $0.owes(counter) ? nil : $0.record?.pid }
        let (mounts, areAllMounts) = UnansweredMount.all(ofKeybag: directory, answered: Set(answered))
        return LockReport(clients: report.clients, areAll: areAll && areAllMounts, mounts: mounts)
    }
}
