import Synchronization
import TrustedHTTP

/// The last few trusts that were read, with their certificates: a thousand downloads mostly have the same one, and hold it once.
enum KnownTrusts {
    private static let known = Mutex<[ServerTrust.Form: ServerTrust]>([:])

    /// Nil if it makes no sense.
    static func trust(_ stored: ServerTrust.Form) -> ServerTrust? {
        if let trust = known.withLock({ $0[stored] }) { return trust }
        guard let trust = try? stored.trust() else { return nil }
        known.withLock { known in
            if known.count >= 16 { known.removeAll() }
            known[stored] = trust
        }
        return trust
    }
}
