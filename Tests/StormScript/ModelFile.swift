/// What a file must contain: pages of bytes in memory, everything else zeros. It knows nothing of chunks or commits.
public struct ModelFile: Sendable {
    /// In bytes.
    public private(set) var size: UInt64 = 0
    private var pages: [UInt64: [UInt8]] = [:]
    private static let page: UInt64 = 4096

    /// An empty file.
    public init() {}

    /// A file of these bytes.
    public init(_ bytes: [UInt8]) { write(bytes, at: 0) }

    /// Where pages lie that were ever written to, in bytes, ascending.
    public var writtenOffsets: [UInt64] { pages.keys.map { $0 * Self.page }.sorted() }

    /// All bytes; for files that fit into memory.
    public var bytes: [UInt8] { bytes(at: 0, count: Int(size)) }

    /// Up to `count` bytes from `offset`; fewer only at the end.
    public func bytes(at offset: UInt64, count: Int) -> [UInt8] {
        guard offset < size else { return [] }
        let end = min(offset + UInt64(count), size)
        var result: [UInt8] = []
        result.reserveCapacity(Int(end - offset))
        var place = offset
        while place < end {
            let index = place / Self.page
            let stop = min((index + 1) * Self.page, end)
            let inside = Int(place % Self.page)..<Int(stop - index * Self.page)
            if let page = pages[index] {
                result += page[inside]
            } else {
                result += repeatElement(0, count: inside.count)
            }
            place = stop
        }
        return result
    }

    /// Puts `bytes` at `offset`; what lies between the end and `offset` becomes zeros.
    public mutating func write(_ bytes: [UInt8], at offset: UInt64) {
        var done = 0
        while done < bytes.count {
            let place = offset + UInt64(done)
            let index = place / Self.page
            let inside = Int(place % Self.page)
            let count = min(Int(Self.page) - inside, bytes.count - done)
            var page = pages.removeValue(forKey: index) ?? [UInt8](repeating: 0, count: Int(Self.page))
            page.replaceSubrange(inside..<inside + count, with: bytes[done..<done + count])
            pages[index] = page
            done += count
        }
        if !bytes.isEmpty { size = max(size, offset + UInt64(bytes.count)) }
    }

    /// Cuts the file, or continues it with zeros.
    public mutating func truncate(to size: UInt64) {
        if size < self.size {
            let last = size / Self.page
            for index in pages.keys where index > last || (index == last && size % Self.page == 0) {
                pages[index] = nil
            }
            if var page = pages[last] {
                let inside = Int(size % Self.page)
                page.replaceSubrange(inside..., with: repeatElement(0, count: page.count - inside))
                pages[last] = page
            }
        }
        self.size = size
    }

    /// Does what `step` says.
    public mutating func apply(_ step: FileStep) {
        switch step {
        case .write(let offset, let count, let seed): write(pattern(seed, count: count), at: offset)
        case .append(let count, let seed): write(pattern(seed, count: count), at: size)
        case .truncate(let size): truncate(to: size)
        case .sync: break
        }
    }
}
