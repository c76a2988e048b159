/// Which downloads run at once: so many in all, so many with one server, the more urgent and then the older ones first.
struct HostSchedule: Hashable, Sendable {
    /// At once, in all.
    var total = 16
    /// At once, with one server.
    var perHost = 8

    /// A download that waits or runs.
    struct Item: Hashable, Sendable {
        let id: DownloadID
        /// Scheme, host and port: nothing is looked up.
        let origin: String
        /// The higher, the earlier.
        let priority: Int
        /// The smaller, the earlier.
        let position: Int64
        /// Not before; milliseconds since 1970.
        let notBefore: Int64

        func isBefore(_ other: Item) -> Bool {
            (other.priority, position, id) < (priority, other.position, other.id)
        }
    }

    /// What is to be done now.
    struct Plan: Hashable {
        /// In the order in which they begin.
        var begin: [DownloadID] = []
        /// When to ask again although nothing has happened; milliseconds since 1970.
        var askAgainAt: Int64?
    }

    /// - Parameter running: nothing that runs is stopped for something more urgent.
    func plan(waiting: [Item], running: [Item], now: Int64) -> Plan {
        var plan = Plan()
        var counts = running.reduce(into: [:]) { $0[$1.origin, default: 0] += 1 }
        var free = max(1, total) - running.count
        let order = waiting.sorted { $0.isBefore($1) }
        for item in order {
            if item.notBefore > now {
                plan.askAgainAt = min(plan.askAgainAt ?? .max, item.notBefore)
            } else if free > 0, counts[item.origin, default: 0] < max(1, perHost) {
                plan.begin.append(item.id)
                counts[item.origin, default: 0] += 1
                free -= 1
            }
        }
        return plan
    }
}
