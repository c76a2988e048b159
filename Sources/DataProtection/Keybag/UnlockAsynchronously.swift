public import DurableFiles
public import Keybags
public import ProtectionKeys

extension Keybag {
    /// Loads all class keys into the kernel keyring, or none, without a thread of Swift's pool: the half second that the passcode takes
    /// is spent on a thread of its own.
    ///
    /// Everything else is as with the form that is not `async`. A task that is cancelled meanwhile is not heard: an attempt that was
    /// counted is finished.
    /// - Parameters:
    ///   - passcode: 1 to 1,024 bytes. A second copy of it is in secret memory while the attempt is made.
    ///   - time: after how long the kernel itself lets class keys A and B expire; nil: not at all.
    ///   - allowsNamespace: whether to load the keys in a user namespace that locks outside it do not reach.
    public func unlock(
        passcode: borrowing SecretBytes, for time: Duration? = nil, allowsNamespace: Bool = false
    ) async throws(DataProtectionError) {
        let own = passcode.slice(0..<passcode.count)
        try await BlockingWork.run { () throws(DataProtectionError) in
            try self.unlock(passcode: own, for: time, allowsNamespace: allowsNamespace)
        }
    }
}
