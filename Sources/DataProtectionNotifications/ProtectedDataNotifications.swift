public import DataProtection
public import Foundation

// Apart from DataProtection, because NotificationCenter needs all of Foundation, which takes longer to start than most
// commands run.

extension Notification.Name {
    /// The lock is coming; `deadline` in `userInfo` is a `ContinuousClock.Instant`.
    ///
    /// UIKit: `UIApplication.protectedDataWillBecomeUnavailableNotification`, with the same raw value.
    public static let protectedDataWillBecomeUnavailable = Notification.Name(
        "UIApplicationProtectedDataWillBecomeUnavailable")
    /// Files of every class open.
    ///
    /// UIKit: `UIApplication.protectedDataDidBecomeAvailableNotification`, with the same raw value.
    public static let protectedDataDidBecomeAvailable = Notification.Name(
        "UIApplicationProtectedDataDidBecomeAvailable")
    /// The keys have gone. UIKit has no such notification.
    public static let protectedDataDidBecomeUnavailable = Notification.Name("ProtectedDataDidBecomeUnavailable")
}

extension Keybag {
    /// Posts every ``ProtectedDataEvent`` from now on, with this keybag as its object.
    ///
    /// On a thread of Swift's own. An observer that needs the main queue says so, as on iOS:
    /// `addObserver(forName: .protectedDataWillBecomeUnavailable, object: nil, queue: .main)`.
    /// - Returns: keep it: nothing is posted any more when it goes.
    public func postProtectedDataNotifications(
        to center: NotificationCenter = .default
    ) -> ProtectedDataObservation {
        observeProtectedData { [self] event in
            switch event {
            case .willBecomeUnavailable(let deadline):
                center.post(
                    name: .protectedDataWillBecomeUnavailable, object: self, userInfo: ["deadline": deadline])
            case .didBecomeUnavailable: center.post(name: .protectedDataDidBecomeUnavailable, object: self)
            case .didBecomeAvailable: center.post(name: .protectedDataDidBecomeAvailable, object: self)
            }
        }
    }
}
