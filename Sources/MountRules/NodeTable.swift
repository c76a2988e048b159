import SystemPackage

/// The files and directories of a mount that the kernel knows, each under a number of its own. No I/O.
///
/// A file with several names (hard links) is one node, so that it has one page cache. Numbers are never used again while the mount lives: what a
/// program still means by an old one must not become another file.
package struct NodeTable: Sendable {
    /// What a file is below the mount.
    package struct Identity: Hashable, Sendable {
        package let device: UInt64
        package let inode: UInt64

        package init(device: UInt64, inode: UInt64) {
            self.device = device
            self.inode = inode
        }
    }

    /// Where a file was found last.
    package struct Place: Hashable, Sendable {
        package let parent: UInt64
        package let name: FilePath.Component

        package init(parent: UInt64, name: FilePath.Component) { (self.parent, self.name) = (parent, name) }
    }

    /// What is known of one.
    package struct Node: Hashable, Sendable {
        package let identity: Identity
        package fileprivate(set) var place: Place?
        /// Entries that the kernel has.
        package fileprivate(set) var lookups: UInt64
        /// Nodes that were found in this one.
        package fileprivate(set) var children: Int
        /// Whether a file of this identity, if one is found, is this node.
        package fileprivate(set) var isNamed: Bool

        package init(
            _ identity: Identity, _ place: Place? = nil, lookups: UInt64 = 0, children: Int = 0, isNamed: Bool = true
        ) {
            (self.identity, self.place, self.lookups, self.children) = (identity, place, lookups, children)
            self.isNamed = isNamed
        }
    }

    /// The number of the mount's root: `FUSE_ROOT_ID` of linux/fuse.h.
    package static let root: UInt64 = 1

    private var nodes: [UInt64: Node]
    private var numbers: [Identity: UInt64]
    private var next = root + 1

    package init(root: Identity) {
        nodes = [Self.root: Node(root)]
        numbers = [root: Self.root]
    }

    // MARK: its log

    /// What another process makes the same table of.
    package var log: [NodeLog.Entry] {
        [.next(next)] + nodes.filter { $0.key != Self.root || $0.value.children > 0 }.map { .node($0.key, $0.value) }
    }

    /// Does what an entry of a log says.
    package mutating func apply(_ entry: NodeLog.Entry) {
        switch entry {
        case .found(let identity, let place): _ = found(identity, as: place.name, in: place.parent)
        case .seen(let number): nodes[number]?.lookups += 1
        case .moved(let identity, let place): moved(identity, to: place.name, in: place.parent)
        case .removed(let identity): removed(identity)
        case .forgotten(let number, let count): forget(number, count)
        case .node(let number, let node):
            nodes[number] = node
            if node.isNamed { numbers[node.identity] = number }
        case .next(let number): next = number
        }
    }

    // MARK: changes

    /// How many nodes there are.
    package var count: Int { nodes.count }

    /// Notes that the kernel is given an entry.
    ///
    /// - Returns: the node's number.
    package mutating func found(_ identity: Identity, as name: FilePath.Component, in parent: UInt64) -> UInt64 {
        let number: UInt64
        if let known = numbers[identity] {
            number = known
        } else {
            number = next
            next += 1
            numbers[identity] = number
            nodes[number] = Node(identity)
        }
        if number != Self.root { move(number, to: Place(parent: parent, name: name)) }
        nodes[number]?.lookups += 1
        return number
    }

    /// A file was renamed. Does nothing if the kernel does not know it.
    package mutating func moved(_ identity: Identity, to name: FilePath.Component, in parent: UInt64) {
        guard let number = numbers[identity], number != Self.root else { return }
        move(number, to: Place(parent: parent, name: name))
    }

    /// The last name of a file has gone. Its node stays as long as the kernel knows it, but what gets the inode number next is another file.
    package mutating func removed(_ identity: Identity) {
        guard let number = numbers[identity], number != Self.root else { return }
        numbers[identity] = nil
        nodes[number]?.isNamed = false
    }

    private mutating func move(_ number: UInt64, to place: Place) {
        let old = nodes[number]?.place
        guard old != place else { return }
        nodes[number]?.place = place
        nodes[place.parent]?.children += 1
        if let old { leave(old.parent) }
    }

    /// The kernel drops entries.
    ///
    /// - Returns: the numbers of all nodes that are no more.
    @discardableResult
    package mutating func forget(_ number: UInt64, _ count: UInt64) -> [UInt64] {
        guard number != Self.root, let lookups = nodes[number]?.lookups else { return [] }
        nodes[number]?.lookups = lookups - min(count, lookups)
        return removeUnused(number)
    }

    /// A node has one less that was found in it.
    private mutating func leave(_ parent: UInt64) {
        nodes[parent]?.children -= 1
        removeUnused(parent)
    }

    /// Removes a node that nothing needs any more, and then those that it was found in. A loop: a program can make directories as deep as it likes.
    @discardableResult
    private mutating func removeUnused(_ number: UInt64) -> [UInt64] {
        var gone: [UInt64] = []
        var next: UInt64? = number
        while let number = next, number != Self.root, let node = nodes[number], node.lookups == 0, node.children == 0 {
            nodes[number] = nil
            if numbers[node.identity] == number { numbers[node.identity] = nil }
            gone.append(number)
            next = node.place?.parent
            if let next { nodes[next]?.children -= 1 }
        }
        return gone
    }

    /// What a node is; nil if there is no such node.
    package func identity(of number: UInt64) -> Identity? { nodes[number]?.identity }

    /// The node of a file; nil if there is none.
    package func number(of identity: Identity) -> UInt64? { numbers[identity] }

    /// Where a node was found last; nil for the root, and if there is no such node.
    package func place(of number: UInt64) -> Place? { nodes[number]?.place }

    /// Whether the last name of a node has gone.
    package func isRemoved(_ number: UInt64) -> Bool { nodes[number]?.isNamed == false }

    /// The nodes that lead to one, itself first, as far as the first that `isReached` says yes to; that one is not among them.
    ///
    /// - Returns: nil if there is no such node.
    package func way(to number: UInt64, from isReached: (UInt64) -> Bool) -> [UInt64]? {
        var way: [UInt64] = []
        var current = number
        while current != Self.root, !isReached(current) {
            // Renames below the mount can make circles of places that were found at different times.
            guard let place = nodes[current]?.place, way.count <= nodes.count else { return nil }
            way.append(current)
            current = place.parent
        }
        return way
    }
}
