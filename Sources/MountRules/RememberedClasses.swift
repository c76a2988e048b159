import ProtectionKeys
import SystemPackage

/// The classes of files that lost their names while a mount served them. No I/O.
///
/// Many programs save by removing a file, or by renaming it to a backup name, and then making a new one. The new file is to have the class of
/// the old one.
package struct RememberedClasses: Sendable {
    /// A name in a directory.
    package struct Name: Hashable, Sendable {
        package let directory: NodeTable.Identity
        package let name: FilePath.Component

        package init(_ name: FilePath.Component, in directory: NodeTable.Identity) {
            self.directory = directory
            self.name = name
        }
    }

    /// How many names are remembered; then the oldest is forgotten.
    package let limit: Int
    private var classes: [Name: ProtectionClass] = [:]
    /// All names, at first in the order in which they came. When there are ``limit`` of them, a new one takes the place at ``next``.
    private var names: [Name] = []
    private var next = 0

    package init(limit: Int = 10_000) { self.limit = limit }

    /// A file of that class lost its name.
    package mutating func remember(_ protectionClass: ProtectionClass, as name: Name) {
        if classes.updateValue(protectionClass, forKey: name) != nil { return }
        guard names.count == limit else { return names.append(name) }
        classes[names[next]] = nil
        names[next] = name
        next = (next + 1) % limit
    }

    /// The class of the last file that lost that name; nil if none is remembered.
    package func protectionClass(of name: Name) -> ProtectionClass? { classes[name] }
}
