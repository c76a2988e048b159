import DataProtection
import Foundation
import Logging

/// A swift-log handler whose lines can be read only while unlocked, and are written in every state.
///
/// A line is on disk when `log` returns. Locks, rotation and kill -9 are the business of ``SegmentedLog``.
struct ProtectedLogHandler: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.info

    private let label: String
    private let log: SegmentedLog
    /// Logging cannot throw: somebody must be told that a line was not written.
    private let onFailure: @Sendable (DataProtectionError) -> Void

    init(label: String, log: SegmentedLog, onFailure: @escaping @Sendable (DataProtectionError) -> Void) {
        self.label = label
        self.log = log
        self.onFailure = onFailure
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let details = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
            .map { " \($0.key)=\($0.value)" }.joined()
        let text = "\(event.level) \(label): \(event.message)\(details)".replacingOccurrences(of: "\n", with: "\\n")
        do throws(DataProtectionError) {
            try log.append(line: "\(Date().ISO8601Format()) \(text)")
        } catch {
            onFailure(error)
        }
    }
}
