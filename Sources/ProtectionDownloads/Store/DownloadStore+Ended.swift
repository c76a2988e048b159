import DataProtection
import FoundationEssentials
import GRDB

/// What stays in the list of downloads that are over. Their rows are kept for programs that come back and ask by id, but not for
/// ever: the newest thousand, for thirty days. A failed one stays until somebody takes it out, because of what came of it.
extension DownloadStore {
    /// So many finished and cancelled downloads stay, the last ones.
    static let keptCount = 1000
    /// For so long, in milliseconds.
    static let keptTime: Int64 = 30 * 86_400_000

    /// Those that are over and of which nothing is left to be done.
    private static let isDone = """
        (state = \(DownloadState.finished.rawValue) OR state = \(DownloadState.cancelled.rawValue) AND resource IS NULL)
        """

    /// Takes those out that are over for long. Part of a transaction that adds one.
    static func forgetOld(_ database: Database, now: Int64) throws {
        try database.execute(
            sql: """
                DELETE FROM downloads WHERE \(isDone) AND (coalesce(ended, added) < ? OR id NOT IN (
                    SELECT id FROM downloads WHERE \(isDone)
                    ORDER BY coalesce(ended, added) DESC, position DESC LIMIT ?))
                """, arguments: [now - keptTime, keptCount])
    }

    /// Takes all out that are finished or cancelled.
    func forgetEnded() throws(DownloadError) {
        try write { try $0.execute(sql: "DELETE FROM downloads WHERE \(Self.isDone)") }
    }
}
