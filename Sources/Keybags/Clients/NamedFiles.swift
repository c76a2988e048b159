import DurableFiles
import ProtectionFormat
import SystemPackage

/// The class B files that this process names to others, as many as there is room for.
package struct NamedFiles {
    package private(set) var paths = [FilePath?](repeating: nil, count: OpenFileName.maximumCount)
    private var room = OpenFileName.maximumCount

    /// Takes a file in.
    ///
    /// - Returns: its place; nil if there is no room.
    package mutating func add(_ path: FilePath) -> Int? {
        guard room > 0, let slot = paths.firstIndex(of: nil) else { return nil }
        paths[slot] = path
        room -= 1
        return slot
    }

    package mutating func remove(_ slot: Int) {
        paths[slot] = nil
        room += 1
    }
}
