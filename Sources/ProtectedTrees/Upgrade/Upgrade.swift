import Dispatch
import DurableFiles
import Glibc
import Keybags
import POSIXThreads
import ProtectedFiles
public import ProtectionKeys
import Synchronization
public import SystemPackage

/// Brings everything below a directory to its class: a sequence of one result for each file.
///
///     let upgrade = try keybag.upgrade(directory: documents, to: .complete)
///     for await result in upgrade { show(result) }
///     if let error = upgrade.summary.lastError { … }
///
/// Plaintext is protected in place, weaker classes are raised; nothing is ever lowered, and what is right is left alone after
/// one look at its head, without a key. Each file is wholly old or wholly new at every moment. Ending the loop, or cancelling its task, ends the
/// upgrade: files in hand are finished or unchanged. Another upgrade continues where one ended.
public final class Upgrade: AsyncSequence, Sendable {
    private let pass: UpgradePass
    private let latest = Mutex(UpgradeSummary())

    package init(_ pass: UpgradePass) { self.pass = pass }

    /// What has come of it so far; all of it when the sequence has ended.
    public var summary: UpgradeSummary { latest.withLock { $0 } }

    /// Begins the upgrade. Files are done ahead of the results that are taken, but not by more than 1,024. Where the system makes no thread, all
    /// of them are done when this returns.
    public func makeAsyncIterator() -> AsyncIterator {
        let room = DispatchSemaphore(value: 0)
        for _ in 0..<1024 { room.signal() }
        let stop = StopFlag()
        latest.withLock { $0 = UpgradeSummary() }
        let results = AsyncStream<UpgradeResult> { [self] continuation in
            continuation.onTermination = { [self] reason in
                stop.set()
                // The caller that cancelled it may ask for the summary before the threads have noticed.
                if case .cancelled = reason { latest.withLock { $0.isStopped = true } }
                room.signal()
            }
            do throws(POSIXThread.Refusal) {
                try POSIXThread.detach(blocksSignals: true) { [self] in
                    if pass.options.isBackground { _ = nice(19) }  // on Linux that of the calling thread
                    run(until: stop, continuation, waitingFor: room)
                }
            } catch {
                // Nobody takes a result before this is over.
                run(until: stop, continuation, waitingFor: nil)
            }
        }
        return AsyncIterator(results: results.makeAsyncIterator(), room: room)
    }

    private func run(
        until stop: StopFlag, _ continuation: AsyncStream<UpgradeResult>.Continuation,
        waitingFor room: DispatchSemaphore?
    ) {
        let report = { [self] (result: UpgradeResult) in
            latest.withLock { $0.add(result) }
            if !stop.isSet { room?.wait() }
            continuation.yield(result)
        }
        let summary = pass.run(while: { !stop.isSet }, reporting: report)
        latest.withLock { $0.isStopped = summary.isStopped }
        continuation.finish()
    }

    /// Gives out the results in the order of the names.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var results: AsyncStream<UpgradeResult>.AsyncIterator
        fileprivate let room: DispatchSemaphore

        /// The next result; nil at the end, or when the task is cancelled.
        public mutating func next() async -> UpgradeResult? {
            let result = await results.next()
            room.signal()
            return result
        }
    }
}

extension Keybag {
    /// Brings every regular file below a directory to a class at least, on the same file system.
    ///
    /// Directories get it as their default first. Links are not followed; what ssh, shells and protectfs itself need is left out, and so
    /// is ``LeftOut`` unless it is included.
    /// Work is done when the sequence is iterated.
    /// - Parameters:
    ///   - directory: where. What else may be at work in it gets nothing outside of it read or written.
    ///   - protectionClass: of all files; with rules, of those of which no rule says anything.
    ///   - rules: which file gets which class.
    ///   - options: how.
    /// - Throws: `system` if the directory cannot be opened, `rulesWithin` for rules that were read from it.
    public func upgrade(
        directory: FilePath, to protectionClass: ProtectionClass, rules: UpgradeRules? = nil,
        options: UpgradeOptions = UpgradeOptions()
    ) throws(DataProtectionError) -> Upgrade {
        Upgrade(try UpgradePass(self, directory, to: protectionClass, rules: rules, options: options))
    }

    /// The same by rules alone: files of which none says anything stay as they are.
    public func upgrade(
        directory: FilePath, rules: UpgradeRules, options: UpgradeOptions = UpgradeOptions()
    ) throws(DataProtectionError) -> Upgrade {
        Upgrade(try UpgradePass(self, directory, to: nil, rules: rules, options: options))
    }

    /// The same for a program that starts: one file at a time with the lowest priority, and to the end.
    ///
    /// Where nothing is to do each file costs one read of its head. What is locked is done after the next unlock.
    /// - Throws: `system` if the directory cannot be opened.
    public func upgradeAtLaunch(
        _ directory: FilePath, to protectionClass: ProtectionClass
    ) async throws(DataProtectionError) -> UpgradeSummary {
        var options = UpgradeOptions()
        options.jobs = 1
        options.isBackground = true
        let upgrade = try upgrade(directory: directory, to: protectionClass, options: options)
        for await _ in upgrade {}
        return upgrade.summary
    }
}

/// Raised once, seen by all threads.
package final class StopFlag: Sendable {
    private let flag = Atomic(false)
    package var isSet: Bool { flag.load(ordering: .relaxed) }
    package func set() { flag.store(true, ordering: .relaxed) }
}
