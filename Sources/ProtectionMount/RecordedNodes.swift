import FuseSession
import MountRules
import SystemPackage

/// The nodes of a mount. Each change is in the record of the connection before the kernel hears of it, so that another server can go on with them.
struct RecordedNodes: Sendable {
    private(set) var table: NodeTable
    /// Nil also when the log had no room: then no other server can go on with the nodes.
    private var record: ConnectionRecord?
    /// The length of the log, in bytes, at which it is written anew.
    private var limit = Self.least
    private static let least = 1 << 20

    /// - Parameter record: of a connection that had another server, or of a new one.
    /// - Throws: `badMessage` if another server's nodes are not known.
    init(root: NodeTable.Identity, _ record: ConnectionRecord?) throws(Errno) {
        table = NodeTable(root: root)
        self.record = record
        guard let record else { return }
        guard let log = record.bytes(of: .nodes).flatMap({ NodeLog.decode($0) }) else { throw .badMessage }
        for entry in log { table.apply(entry) }
    }

    mutating func found(
        _ identity: NodeTable.Identity, as name: FilePath.Component, in parent: FuseNode
    ) -> FuseNode {
        let place = NodeTable.Place(parent: parent, name: name)
        // Most are known, and asked for again and again.
        let known = table.number(of: identity).flatMap { table.place(of: $0) == place ? $0 : nil }
        defer { note(known.map { .seen($0) } ?? .found(identity, place)) }
        return table.found(identity, as: name, in: parent)
    }

    mutating func moved(_ identity: NodeTable.Identity, to name: FilePath.Component, in parent: FuseNode) {
        table.moved(identity, to: name, in: parent)
        note(.moved(identity, NodeTable.Place(parent: parent, name: name)))
    }

    mutating func removed(_ identity: NodeTable.Identity) {
        table.removed(identity)
        note(.removed(identity))
    }

    mutating func forget(_ node: FuseNode, _ count: UInt64) -> [FuseNode] {
        defer { note(.forgotten(node, count: count)) }
        return table.forget(node, count)
    }

    private mutating func note(_ change: NodeLog.Entry) {
        guard let record else { return }
        let length = record.append(NodeLog.encode(change), to: .nodes)
        if let length, length <= limit { return }
        let log = table.log.flatMap { NodeLog.encode($0) }
        limit = max(Self.least, 3 * log.count)
        if record.replace(.nodes, by: log) { return }
        record.giveUp(.nodes)
        self.record = nil  // or each lookup would try again
    }
}
