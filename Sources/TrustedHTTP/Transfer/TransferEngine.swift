import CCurl
import Synchronization

/// A thread on which libcurl works, and the connections that it has made, for one trust and one identity.
///
/// libcurl would use a connection again for a request whose trust is another one: what a callback has decided is nothing that
/// it compares. So connections are only shared where everything about trust is equal.
final class TransferEngine: Sendable {
    private enum Message: Sendable {
        case add(Exchange)
        case cancel(Exchange)
        /// The receiver of this one has made room, or has thrown.
        case look(Exchange)
    }

    private struct Inbox {
        var messages: [Message] = []
        /// How many exchanges were added and have not ended.
        var count = 0
        var isClosed = false
    }

    private let inbox = Mutex(Inbox())
    private let multi: MultiHandle
    private let idleTime: Int

    /// - Parameters:
    ///   - idleTime: in milliseconds: how long connections are kept that nobody uses.
    ///   - whenEnded: called on the engine's thread when nothing can be added any more.
    /// - Returns: nil if there is no memory or no thread.
    init?(idleTime: Int = 30_000, whenEnded: @escaping @Sendable (TransferEngine) -> Void) {
        guard let multi = MultiHandle(connections: 16) else { return nil }
        (self.multi, self.idleTime) = (multi, idleTime)
        let started = DetachedThread.start { [self] in
            EngineLoop(self, multi).run()
            whenEnded(self)
        }
        guard started else { return nil }
    }

    /// false if the engine has ended: another one is needed.
    func add(_ exchange: Exchange) -> Bool {
        let isOpen = inbox.withLock { inbox in
            guard !inbox.isClosed else { return false }
            inbox.messages.append(.add(exchange))
            inbox.count += 1
            return true
        }
        if isOpen { multi.wakeUp() }
        return isOpen
    }

    func cancel(_ exchange: Exchange) { post(.cancel(exchange)) }
    func look(at exchange: Exchange) { post(.look(exchange)) }

    private func post(_ message: Message) {
        inbox.withLock { inbox in
            guard !inbox.isClosed else { return }
            inbox.messages.append(message)
            multi.wakeUp()
        }
    }

    /// The engine ends as soon as nothing is going on; its connections are closed.
    func retire() {
        inbox.withLock { inbox in
            guard inbox.count == 0 else { return }
            inbox.isClosed = true
            multi.wakeUp()
        }
    }

    /// What the thread does.
    private final class EngineLoop {
        private let engine: TransferEngine
        private let multi: MultiHandle
        private var running: [UnsafeMutableRawPointer: Exchange] = [:]
        /// Whether there was nothing to do before the last wait, either.
        private var wasIdle = false

        init(_ engine: TransferEngine, _ multi: MultiHandle) { (self.engine, self.multi) = (engine, multi) }

        func run() {
            while handleMessages() {
                multi.perform()
                for exchange in running.values { exchange.delivery?.flush() }
                for (easy, code) in multi.takeEnded() {
                    finish(easy) { $0.end(code) }
                }
                // A wake-up that came meanwhile ends this at once.
                multi.wait(milliseconds: running.isEmpty ? engine.idleTime : resumePaced())
            }
        }

        /// Lets those go on that have waited for their bandwidth.
        ///
        /// - Returns: when the next one will have, in milliseconds.
        private func resumePaced() -> Int {
            let now = Pace.now()
            var next: UInt64 = 1_000_000_000
            for exchange in running.values {
                guard exchange.isPaused, let time = exchange.pace.pausedUntil else { continue }
                if time <= now { exchange.resume() }
                if let time = exchange.pace.pausedUntil { next = min(next, time - min(time, now)) }
            }
            return Int((next + 999_999) / 1_000_000)
        }

        /// false at the end: nothing is going on, and the engine was retired or nobody has wanted anything for long.
        private func handleMessages() -> Bool {
            let messages = engine.inbox.withLock { inbox in
                defer { inbox.messages = [] }
                if inbox.messages.isEmpty, running.isEmpty, wasIdle { inbox.isClosed = true }
                return inbox.isClosed && inbox.count == 0 ? nil : inbox.messages
            }
            guard let messages else { return false }
            wasIdle = running.isEmpty && messages.isEmpty
            for message in messages { handle(message) }
            return true
        }

        private func handle(_ message: Message) {
            switch message {
            case .add(let exchange):
                running[exchange.easy.pointer] = exchange
                do throws(HTTPError) {
                    try exchange.prepare()
                    guard multi.add(exchange.easy) else { throw .transport("no memory") }
                } catch {
                    finish(exchange.easy.pointer) { $0.end(error) }
                }
            case .cancel(let exchange): finish(exchange.easy.pointer) { $0.end(.cancelled) }
            case .look(let exchange):
                if exchange.delivery?.hasFailed == true {
                    finish(exchange.easy.pointer) { $0.end(.cancelled) }
                } else if running[exchange.easy.pointer] === exchange {
                    exchange.resume()
                }
            }
        }

        private func finish(_ easy: UnsafeMutableRawPointer, _ body: (Exchange) -> Void) {
            guard let exchange = running.removeValue(forKey: easy) else { return }
            multi.remove(exchange.easy)
            // First, because the caller may retire the engine as soon as it hears of the end: an engine still counted would live on until idle.
            engine.inbox.withLock { $0.count -= 1 }
            body(exchange)
        }
    }
}
