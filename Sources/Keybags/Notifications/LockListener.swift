import DurableFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Wakes observers in this process when a keybag is locked or unlocked, by any process. An observer that is woken asks the ring.
///
/// A file wakes listeners because not every kernel can watch a keyring (KEYCTL_WATCH_KEY). The file is found by its keybag and not
/// by the environment, so every process that can use the keybag hears of a lock, in whichever session.
///
///     let observation = try LockListener.shared.observe(keybag.directory, of: keybag.uuid) { record in
///         …      // the ring has been changed, perhaps
///         return nil
///     }
package struct LockListener: Sendable {
    package static let shared = LockListener(.shared)

    /// What is called after every transition, as a ``ChangeListener/Body``. Its argument: the last event, if the file can be read.
    package typealias Body = @Sendable (EventRecord?) -> UInt64?

    package typealias Observation = ChangeListener.Observation

    private let listener: ChangeListener

    package init(_ listener: ChangeListener = ChangeListener()) { self.listener = listener }

    /// Calls `body` whenever something may have happened to the keys of a keybag.
    ///
    /// - Parameters:
    ///   - keybag: the keybag's directory.
    ///   - warn: told if this keybag has to be looked at once a second.
    /// - Throws: `system`: no thread could be made.
    package func observe(
        _ keybag: FilePath, of uuid: KeybagUUID, warn: @escaping @Sendable (ProtectionWarning) -> Void = { _ in },
        _ body: @escaping Body
    ) throws(DataProtectionError) -> Observation {
        let run = RunDirectory(of: keybag)
        let place = WatchedPlace(run.path, isMadeAnew: true) { () throws(Errno) in
            do throws(DataProtectionError) { try run.make() } catch { throw error.errno }
            return !run.isShared
        }
        let warnOfPolling: @Sendable (Errno) -> Void = { warn(.lockStatePolled(keybag, $0)) }
        return try listener.observe(place, warn: warnOfPolling) {
            let record = EventFile(of: keybag).read()
            return body(record?.keybag == uuid ? record : nil)
        }
    }

    /// Whether the thread is there; for tests.
    package var isListening: Bool { listener.isListening }
}
