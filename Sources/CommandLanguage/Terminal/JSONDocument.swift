import DataProtection

/// A JSON array, printed while it grows, in pieces of about 64 KiB. The same bytes as ``JSON/print()`` gives.
package struct JSONList {
    private var lines = OutputLines()
    /// It is followed by a comma or by the end.
    private var last: String?

    package init() {}

    /// Adds an element.
    package mutating func add(_ element: JSON) throws(Failure) {
        try lines.add(Array((last.map { "  \($0)," } ?? "[").utf8))
        last = element.encoded(indentedBy: 2)
    }

    /// Prints what is left, and the end.
    package mutating func finish() throws(Failure) {
        for line in last.map({ ["  \($0)", "]"] }) ?? ["[]"] { try lines.add(Array(line.utf8)) }
        try lines.finish()
    }
}

/// A JSON object with one long list in it, printed while the list grows.
package struct JSONDocument {
    private let name: String
    private var isEmpty = true

    package init(listing name: String) { self.name = name }

    /// Prints an element of the list.
    package mutating func add(_ element: JSON) throws(Failure) {
        try StandardOutput.write(separator + "\n    " + element.encoded(indentedBy: 4))
        isEmpty = false
    }

    /// Prints the end of the list, and what comes after it.
    package func finish(_ members: [(String, JSON)]) throws(Failure) {
        let end = isEmpty ? separator + "]" : "\n  ]"
        let rest = members.map { ",\n  " + JSON.string($0.0).encoded + ": " + $0.1.encoded(indentedBy: 2) }
        try StandardOutput.write(end + rest.joined() + "\n}\n")
    }

    private var separator: String { isEmpty ? "{\n  \(JSON.string(name).encoded): [" : "," }
}
