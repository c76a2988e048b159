import DataProtection
import Dispatch
import FoundationEssentials
import Synchronization
import SystemPackage

/// The doors that ``Remnants`` does not use for each class: Foundation's words, streams, looking, logs, the queue, events.
struct FurtherDoors {
    private let keybag: Keybag
    private let directory: FilePath
    /// A thread that looks at the ring at every lock and unlock.
    private let observation: ProtectedDataObservation

    init(_ keybag: Keybag, in directory: FilePath) {
        (self.keybag, self.directory) = (keybag, directory)
        observation = keybag.observeProtectedData { _ in }
    }

    private var made: FilePath { directory.appending("complete-made") }
    private var text: Data { Data(repeating: 0x62, count: 100_000) }

    func use() throws {
        let manager = FileManager.default
        try manager.createFile(
            atPath: made.string, contents: text, attributes: [.protectionKey: FileProtectionType.complete],
            protectedBy: keybag)
        let copy = directory.appending("complete-copy").string
        try manager.copyItem(atPath: made.string, toPath: copy, protectedBy: keybag)
        for type in [FileProtectionType.completeUnlessOpen, .complete] {
            try manager.setAttributes([.protectionKey: type], ofItemAtPath: copy, protectedBy: keybag)
        }
        _ = try manager.attributesOfItem(atPath: copy, protectedBy: keybag)
        _ = try manager.contents(atPath: copy, protectedBy: keybag)
        try stream()
        try look()
        let log = try SegmentedLog(directory.appending("unless-open-log"), keybag: keybag)
        try log.append(line: "unlocked")
        try log.close()
    }

    /// What a `complete` file refuses, and what goes on.
    func useWhileLocked() throws {
        guard (try? ProtectedFile.open(made, keybag: keybag)) == nil, (try? keybag.verify(made)) == nil else {
            throw NotRefused()
        }
        let log = try SegmentedLog(directory.appending("unless-open-log"), keybag: keybag)
        try log.append(line: "locked")
        try log.close()
        let writer = try ProtectedFileWriter(
            directory.appending("raised"), as: .completeUnlessOpen, raiseTo: .complete, keybag: keybag)
        try text.withUnsafeBytes { try writer.append($0) }
        try writer.finish()
    }

    func useAfterwards() throws {
        try keybag.performQueuedWork()
        guard try ProtectedFileInfo(of: directory.appending("raised")).protectionClass == .complete else {
            throw NotRefused()
        }
        try look()
    }

    private struct NotRefused: Error {}

    /// Without changing anything.
    private func look() throws {
        _ = try keybag.verify(made)
        _ = try FileInspection(of: made, keybag: keybag)
        _ = try KeybagInspection(of: keybag.directory)
        let file = try ProtectedFile.open(made, keybag: keybag)
        _ = try file.origin()
        try file.close()
    }

    private func stream() throws {
        let (keybag, target, source, text) = (keybag, directory.appending("complete-stream"), made, text)
        try waitFor {
            let pieces = AsyncStream<Data> { stream in
                for _ in 0..<3 { stream.yield(text) }
                stream.finish()
            }
            try await ProtectedFile.write(contentsOf: pieces, to: target, as: .complete, keybag: keybag)
            for try await _ in try ProtectedFile.open(source, keybag: keybag).chunks(ofBytes: 70_000) {}
        }
    }

    private func waitFor(_ body: @escaping @Sendable () async throws -> Void) throws {
        let end = DispatchSemaphore(value: 0)
        let failure = Mutex<(any Error)?>(nil)
        Task {
            do { try await body() } catch { failure.withLock { $0 = error } }
            end.signal()
        }
        end.wait()
        if let error = failure.withLock({ $0 }) { throw error }
    }
}
