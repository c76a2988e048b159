import Glibc
import SystemPackage

/// A way down from a directory, by open directories and single names, of which only the lowest few are open.
///
/// A tree can be deeper than a process may have files open, than PATH_MAX bytes of a path, and than the stack. So a pass over a tree keeps
/// this and a list of what is left to do, and does not call itself. On the way up a directory is opened again by `..`, and must be the one
/// that it was: somebody may have moved the lower one elsewhere meanwhile.
package struct Descent {
    private struct Step {
        let name: FilePath.Component
        let status: stat
    }

    private let top: LowerDirectory
    private var steps: [Step] = []
    /// The lowest ones, at least one of them below the top.
    private var open: [LowerDirectory] = []

    /// How many stay open.
    private static let window = 32

    /// Begins in a directory, which stays open.
    package init(_ top: LowerDirectory) { self.top = top }

    /// Where it has arrived.
    package var directory: LowerDirectory { open.last ?? top }

    /// What that is called in the directory above; nil at the top.
    package var name: FilePath.Component? { steps.last?.name }

    /// Goes into a directory that was opened in ``directory``.
    ///
    /// - Throws: `system`; then nothing has changed.
    package mutating func enter(_ name: FilePath.Component, _ inner: LowerDirectory) throws(DataProtectionError) {
        steps.append(Step(name: name, status: try inner.status()))
        open.append(inner)
        if open.count > Self.window { open.removeFirst() }
    }

    /// Goes into the directory of that name, which is made, 0700, if there is nothing.
    ///
    /// - Returns: whether it was made.
    /// - Throws: `exists` if there is something else, a link included; `system`.
    @discardableResult
    package mutating func make(_ name: FilePath.Component) throws(DataProtectionError) -> Bool {
        let (inner, isNew) = try directory.subdirectory(name)
        try enter(name, inner)
        return isNew
    }

    /// Goes up to the directory above; not called at the top.
    ///
    /// - Throws: `system` with ESTALE if it is another one by now. It cannot be gone on from there.
    package mutating func leave() throws(DataProtectionError) {
        let left = open.removeLast()
        steps.removeLast()
        guard open.isEmpty, let step = steps.last else { return }
        let path = left.path.removingLastComponent()
        let descriptor = try retrying(path, "openat") {
            openat(left.descriptor, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        }
        let above = LowerDirectory(path, descriptor: descriptor)
        guard try above.status().isSameItem(as: step.status) else {
            throw .system(path, operation: "openat", .staleNFSFileHandle)
        }
        open.append(above)
    }

    /// Goes all the way up, and makes the names in each directory last.
    package consuming func flush() throws(DataProtectionError) {
        while true {
            try directory.flush()
            if steps.isEmpty { return }
            try leave()
        }
    }
}
