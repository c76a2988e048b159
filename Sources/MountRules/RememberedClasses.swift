import ProtectionKeys
import SystemPackage

/// The classes of files that lost their names while a mount served them. No I/O.
///
/// Many programs save by removing a file, or by renaming it to a backup name, and then making a new one. The new file is to have the class of
/// the old one. A name is a path from the root of the mount: a directory that is removed and made anew is another one, and what gets its inode
/// number may have nothing to do with it.
package struct RememberedClasses: Sendable {
    /// How many names are remembered; then the oldest is forgotten.
    package let limit: Int
    private var classes: [FilePath: ProtectionClass] = [:]
    /// All names, at first in the order in which they came. When there are ``limit`` of them, a new one takes the place at ``next``.
    private var names: [FilePath] = []
    private var next = 0

    package init(limit: Int = 10_000) { self.limit = limit }

    /// A file of that class lost its name.
    package mutating func remember(_ protectionClass: ProtectionClass, as name: FilePath) {
        if classes.updateValue(protectionClass, forKey: name) != nil { return }
        guard names.count == limit else { return names.append(name) }
        classes[names[next]] = nil
        names[next] = name
        next = (next + 1) % limit
    }

    /// The class of the last file that lost that name; nil if none is remembered.
    package func protectionClass(of name: FilePath) -> ProtectionClass? { classes[name] }

    /// A directory was renamed. What was remembered of names in it counts at both places.
    ///
    /// - Returns: what is remembered now.
    package mutating func moved(directory: FilePath, to new: FilePath) -> [(name: FilePath, ProtectionClass)] {
        var added: [(name: FilePath, ProtectionClass)] = []
        for name in names where name != directory && name.starts(with: directory) {
            var rest = name
            guard rest.removePrefix(directory), let protectionClass = classes[name] else { continue }
            added.append((new.pushing(rest), protectionClass))
        }
        for (name, protectionClass) in added { remember(protectionClass, as: name) }
        return added
    }

    /// All of them, the oldest first.
    package var all: [(name: FilePath, ProtectionClass)] {
        (names[next...] + names[..<next]).compactMap { name in classes[name].map { (name, $0) } }
    }
}
