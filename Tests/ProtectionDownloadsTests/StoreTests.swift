import GRDB
import ProtectionDownloads
import Testing

@Suite("The queue's database")
struct StoreTests {
    @Test("There is SQLite")
    func opens() throws {
        let version = try DatabaseQueue().read { try String.fetchOne($0, sql: "SELECT sqlite_version()") }
        #expect(version?.first == "3")
    }
}
