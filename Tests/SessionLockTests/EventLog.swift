import Foundation
import PrivateBus
import Synchronization

@testable import SessionLock

/// Reads the events of a user and keeps them, so that a test can wait for what it expects.
final class EventLog: Sendable {
    private final class Heard: Sendable { let events = Mutex<[SessionEvent]>([]) }
    private let heard = Heard()
    private let events: SessionEvents

    init(_ bus: PrivateBus, uid: uid_t = getuid()) throws {
        let addresses: [Bus: String] = [.system: bus.systemAddress, .session: bus.sessionAddress]
        events = try SessionEvents(of: uid, addresses: addresses) { [heard] event in
            heard.events.withLock { $0.append(event) }
        }
    }

    /// What was heard, in words.
    var words: [String] { heard.events.withLock { $0.map(\.word) } }

    /// Waits until exactly these were heard, for ten seconds at most, and says what was.
    func until(_ expected: [String]) async -> [String] {
        for _ in 0..<1000 where words.count < expected.count { try? await Task.sleep(for: .milliseconds(10)) }
        return words
    }

    /// The inhibitor of the last sleep.
    var inhibitor: SleepInhibitor? {
        heard.events.withLock { events in
            for case .willSleep(let inhibitor) in events.reversed() { return inhibitor }
            return nil
        }
    }

    /// Forgets the events, and the inhibitors in them.
    func forget() { heard.events.withLock { $0 = [] } }
}

extension SessionEvent {
    /// The name of the case, and of the source that it is about.
    var word: String {
        switch self {
        case .lost(let source): "lost \(source.rawValue)"
        case .back(let source): "back \(source.rawValue)"
        case .willSleep: "willSleep"
        default: "\(self)"
        }
    }
}
