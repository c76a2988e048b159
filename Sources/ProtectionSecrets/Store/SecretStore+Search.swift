import DataProtection
import GRDB

/// Searching by what is in clear. In every lock state.
extension SecretStore {
    /// Finds what a query describes, without values.
    ///
    /// - Parameter scope: without one the private group, and no other.
    /// - Throws: `store`, `storeDamaged`.
    public func find(
        _ query: SecretQuery = SecretQuery(), in scope: SecretScope = .privateGroup
    ) throws(SecretError) -> SecretSearchResult {
        var conditions: [String] = []
        var arguments = StatementArguments()
        func require(_ column: String, _ value: (any DatabaseValueConvertible)?) {
            guard let value else { return }
            conditions.append("\(column) = ?")
            arguments += [value]
        }
        // SQLite's "+" keeps it from walking through a whole group where service, account or host lead to a few rows.
        let isNarrow = [query.service, query.account, query.host].contains { $0 != nil }
        let mark = isNarrow ? "+" : ""
        switch scope {
        case .privateGroup: require(mark + "accessGroup", privateGroup.description)
        case .group(let group): require(mark + "accessGroup", group.description)
        case .allGroups: break
        }
        require(mark + "kind", query.kind.map { Int64($0.rawValue) })
        require("accessibility", query.accessibility.map { Int64($0.rawValue) })
        require("service", query.service)
        // An account stands with many hosts, a host with few accounts.
        require(query.host == nil ? "account" : "+account", query.account)
        require("protocol", query.protocol?.lowercased())
        require("host", query.host?.lowercased())
        require("port", query.port.map { Int64($0) })
        require("path", query.path)
        require("realm", query.realm)
        require("name", query.name)
        let filter = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
        let rows = try read { database in
            try Row.fetchAll(
                try database.cachedStatement(
                    sql: """
                        SELECT \(SecretSchema.columns) FROM secrets \(filter)
                        ORDER BY accessGroup, kind, service, host, account, protocol, port, path, realm, name
                        """), arguments: arguments)
        }
        let records = rows.compactMap { SecretRow($0)?.record }
        return SecretSearchResult(records: records, damaged: rows.count - records.count)
    }

    /// Tells each time that secrets may have changed, here or in another process: look again. Until the stream is dropped.
    public func changes() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let listener = BellListener(bell) { continuation.yield() }
        continuation.onTermination = { _ in withExtendedLifetime(listener) {} }
        return stream
    }
}
