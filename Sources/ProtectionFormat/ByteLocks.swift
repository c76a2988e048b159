/// Bytes far behind the end of every file that processes lock, to take turns. FORMAT.md §3.9.
package enum ByteLocks {
    /// Held while heads are read or replaced.
    package static let slot = 1 << 62
    /// Held by the one writer of a file.
    package static let writer = 1 << 62 + 1
}
