import Glibc
import Synchronization

/// Holds up the machine's sleep (systemd-inhibit(1), "delay") until it is released, or for as long as logind allows:
/// `InhibitDelayMaxSec`, five seconds by default.
///
/// Released at the latest when the object goes.
public final class SleepInhibitor: Sendable {
    private let descriptor: Mutex<Int32>

    /// Takes over the descriptor that logind gave; -1: it gave none, and nothing is held up.
    init(descriptor: Int32) { self.descriptor = Mutex(descriptor) }

    deinit { release() }

    /// Whether sleep is held up.
    public var isHeld: Bool { descriptor.withLock { $0 >= 0 } }

    /// Lets the machine sleep. Idempotent.
    public func release() {
        descriptor.withLock { descriptor in
            if descriptor >= 0 { _ = close(descriptor) }
            descriptor = -1
        }
    }
}
