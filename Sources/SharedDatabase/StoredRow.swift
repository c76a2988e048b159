package import FoundationEssentials
package import GRDB

/// Reads the values of a row. SQLite lets any column hold any type, and GRDB traps on another one than is asked for.
package final class StoredRow {
    private let row: Row
    /// Whether a value was none of those that were asked for.
    package private(set) var isDamaged = false

    package init(_ row: Row) { self.row = row }

    /// No time, count or number of bytes of ours is beyond it, and nothing that is added to it or multiplied with it overflows.
    package static let largest: Int64 = 1 << 53

    /// 0 if it is none, or beyond the bounds: nothing is calculated with a number that somebody may have made up.
    package func number(_ column: Int, in bounds: ClosedRange<Int64> = 0...largest) -> Int64 {
        // GRDB would make an integer of 1.5.
        guard case .int64(let number) = (row[column] as DatabaseValue).storage, bounds ~= number else {
            return damaged(0)
        }
        return number
    }
    /// A value of bytes; empty if it is none.
    package func bytes(_ column: Int) -> [UInt8] { data(column).map(Array.init) ?? damaged([]) }
    /// A value of bytes, or nil if there is none.
    package func data(_ column: Int) -> Data? { isNull(column) ? nil : value(column) ?? damaged(nil) }

    /// A text; empty if it is none. Of what is no UTF-8, or goes on behind a zero byte, it is what GRDB makes of it: to be sure of
    /// the very bytes, look the row up by them.
    package func text(_ column: Int) -> String {
        let stored = row[column] as DatabaseValue
        guard case .string(let text) = stored.storage else { return damaged("") }
        return text
    }

    package func isNull(_ column: Int) -> Bool { (row[column] as DatabaseValue).isNull }
    private func value<Value: DatabaseValueConvertible>(_ column: Int) -> Value? {
        Value.fromDatabaseValue(row[column] as DatabaseValue)
    }
    private func damaged<Value>(_ value: Value) -> Value {
        isDamaged = true
        return value
    }
}
