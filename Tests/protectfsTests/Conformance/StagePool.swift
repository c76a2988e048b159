import Conformance
import DataProtection
import Foundation
import KeyQuota
import Synchronization

/// Throw-away keybags for the cells, each used by one test at a time: making one for every cell would take longer than the cells.
final class StagePool: Sendable {
    static let shared = StagePool()

    private let free = Mutex<[Stage]>([])

    private init() {
        CommandSandbox.isolate()
        atexit { StagePool.shared.free.withLock { $0.removeAll() } }
    }

    /// Runs `body` with a stage that nobody else uses meanwhile.
    func with<R>(_ body: (Stage) throws -> R) throws -> R {
        let stage = try free.withLock { $0.popLast() } ?? Self.make()
        defer { free.withLock { $0.append(stage) } }
        return try body(stage)
    }

    private static func make() throws -> Stage {
        KeyQuota.waitForRoom()
        return try Stage(in: Scratch(in: FilePath(NSTemporaryDirectory())))
    }
}
