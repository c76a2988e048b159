import SystemPackage

/// The log of a ``NodeTable``: entries from which another process makes the same table. It stays in the memory of one machine, so its numbers are as the
/// processor stores them.
///
/// An entry is its own length (4 bytes), its kind (1 byte), 8 bytes for each number, and what is left is a name.
package enum NodeLog {
    package enum Entry: Hashable, Sendable {
        /// A change of the table.
        case found(NodeTable.Identity, NodeTable.Place)
        /// Found once more where it was found last.
        case seen(UInt64)
        case moved(NodeTable.Identity, NodeTable.Place)
        case removed(NodeTable.Identity)
        case forgotten(UInt64, count: UInt64)
        /// A node as it is.
        case node(UInt64, NodeTable.Node)
        /// The number that the next node gets.
        case next(UInt64)
    }

    private enum Kind: UInt8 {
        case found = 1
        case moved, removed, forgotten, placed, unplaced, next, seen
    }

    private static let headLength = 5

    // MARK: encoding

    package static func encode(_ entry: Entry) -> [UInt8] {
        switch entry {
        case .found(let identity, let place): bytes(.found, identity.words + [place.parent], place.name)
        case .seen(let number): bytes(.seen, [number])
        case .moved(let identity, let place): bytes(.moved, identity.words + [place.parent], place.name)
        case .removed(let identity): bytes(.removed, identity.words)
        case .forgotten(let number, let count): bytes(.forgotten, [number, count])
        case .node(let number, let node):
            bytes(
                node.place == nil ? .unplaced : .placed,
                node.identity.words + [
                    node.place?.parent ?? 0, number, node.lookups, UInt64(bitPattern: Int64(node.children)),
                    node.isNamed ? 1 : 0,
                ],
                node.place?.name)
        case .next(let number): bytes(.next, [number])
        }
    }

    private static func bytes(_ kind: Kind, _ words: [UInt64], _ name: FilePath.Component? = nil) -> [UInt8] {
        var bytes = [0, 0, 0, 0, kind.rawValue]
        words.withUnsafeBytes { bytes += $0 }
        name?.withPlatformString { text in
            var next = text
            while next.pointee != 0 {
                bytes.append(UInt8(bitPattern: next.pointee))
                next += 1
            }
        }
        let length = UInt32(bytes.count)
        bytes.withUnsafeMutableBytes { $0.storeBytes(of: length, as: UInt32.self) }
        return bytes
    }

    // MARK: decoding

    /// The entries of a log; nil if it is none.
    package static func decode(_ log: UnsafeRawBufferPointer) -> [Entry]? {
        var entries: [Entry] = []
        var start = 0
        while start < log.count {
            guard log.count - start >= headLength else { return nil }
            let length = Int(log.loadUnaligned(fromByteOffset: start, as: UInt32.self))
            guard length >= headLength, length <= log.count - start,
                let entry = entry(UnsafeRawBufferPointer(rebasing: log[start..<start + length]))
            else { return nil }
            entries.append(entry)
            start += length
        }
        return entries
    }

    private static func entry(_ bytes: UnsafeRawBufferPointer) -> Entry? {
        guard let kind = Kind(rawValue: bytes[4]) else { return nil }
        let count =
            switch kind {
            case .found, .moved: 3
            case .removed, .forgotten: 2
            case .placed, .unplaced: 7
            case .next, .seen: 1
            }
        guard bytes.count >= headLength + count * 8 else { return nil }
        let words = (0..<count).map { bytes.loadUnaligned(fromByteOffset: headLength + $0 * 8, as: UInt64.self) }
        if case .next = kind { return .next(words[0]) }
        if case .seen = kind { return .seen(words[0]) }
        if case .forgotten = kind { return .forgotten(words[0], count: words[1]) }
        let identity = NodeTable.Identity(device: words[0], inode: words[1])
        if case .removed = kind { return .removed(identity) }
        let text = bytes[(headLength + count * 8)...].map { CChar(bitPattern: $0) } + [0]
        let place = FilePath.Component(platformString: text).map { NodeTable.Place(parent: words[2], name: $0) }
        switch kind {
        case .found: return place.map { .found(identity, $0) }
        case .moved: return place.map { .moved(identity, $0) }
        default:
            guard (place != nil) == (kind == .placed) else { return nil }
            return .node(
                words[3],
                NodeTable.Node(
                    identity, place, lookups: words[4], children: Int(Int64(bitPattern: words[5])),
                    isNamed: words[6] != 0))
        }
    }
}

extension NodeTable.Identity {
    fileprivate var words: [UInt64] { [device, inode] }
}
