import TestVectors

@testable import DataProtection
@testable import ProtectionFormat
@testable import ProtectionKeys

/// One or both heads of a file. FORMAT.md §§3.1–3.5, §3.7 rules 1–3.
///
///     1  bit 0: both are filled up with zeros, and get a good check; bit 1: there are two; bit 2: the second is the first, altered;
///        bit 3: as one reads under the slot lock
///     2  length of what follows
///     …  the first head
///     …  the second; with bit 2, of each byte that differs: where (2), the byte
extension FuzzTarget {
    static let head = FuzzTarget("head", longest: 2 * 4096 + 3, seeds: HeadTarget.seeds, run: HeadTarget.run)
}

private enum HeadTarget {
    static func seeds() throws -> [[UInt8]] {
        let heads = try FormatVector.all(in: "head").map { vector in
            [1] + counted(front(try vector.bytes("bytes")))
        }
        let pairs = try FormatVector.all(in: "file").compactMap { vector -> [UInt8]? in
            let bytes = try vector.bytes("bytes")
            guard bytes.count >= 2 * Head.length else { return nil }
            let isGood = try Head.isGood(Array(bytes[..<4096])) && Head.isGood(Array(bytes[4096..<8192]))
            guard isGood else { return [2] + counted(Array(bytes[..<4096])) + bytes[4096..<8192] }
            return [3] + counted(front(Array(bytes[..<4096]))) + front(Array(bytes[4096..<8192]))
        }
        return heads + pairs
    }

    private static func counted(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8(bytes.count & 255), UInt8(bytes.count >> 8)] + bytes
    }

    /// What is not zero before the check.
    private static func front(_ head: [UInt8]) -> [UInt8] {
        let front = head.prefix(Head.checkOffset)
        return Array(front[..<(front.lastIndex { $0 != 0 }.map { $0 + 1 } ?? 0)])
    }

    static func run(_ bytes: [UInt8]) throws {
        var input = Input(bytes)
        let how = input.byte()
        let first = input.take(input.short())
        var slots = [first]
        if how.has(1) || how.has(2) { slots.append(how.has(2) ? altered(first, by: &input) : input.remainder()) }
        if how.has(0) { slots = try slots.map(filled) }
        for slot in slots { try check(slot) }
        try judge(slots, isLocked: how.has(3))
    }

    private static func altered(_ slot: [UInt8], by input: inout Input) -> [UInt8] {
        var slot = slot
        while !input.isAtEnd {
            let (index, byte) = (input.short(), input.byte())
            if index < slot.count { slot[index] = byte }
        }
        return slot
    }

    private static func filled(_ front: [UInt8]) throws -> [UInt8] {
        var bytes = Array(front.prefix(Head.checkOffset))
        bytes.pad(to: Head.checkOffset)
        return try Known.checked(bytes)
    }

    private static func check(_ slot: [UInt8]) throws {
        let isGood = try Head.isGood(slot)
        let isOurs = try Head.looksLikeOurs(start: slot, second: Array(slot.prefix(8)))
        try hold(isOurs || !isGood, "a good head that is not ours")
        let records = Head.Records(in: slot)
        let head: Head
        do throws(FormatError) { head = try Head(decoding: slot) } catch { return }
        try hold(isOurs, "a head that is not ours")
        try hold(records.prefix == head.prefix && records.wrap == head.wrap, "the records of a head are others")
        try hold(records.content == head.content.record, "the content record of a head is another one")
        try hold(try head.encoded().dropLast(32) == slot.dropLast(32), "a head is written in another way")
        let extent = head.prefix.layout.extent(of: head.content.record, generation: head.generation)
        try hold(extent >= 4096 && extent < 1 << 62, "extent \(extent)")
        try sealAnew(head)
    }

    /// The same head under a key that is known: everything behind the seals.
    private static func sealAnew(_ head: Head) throws {
        let (prefix, record) = (head.prefix, head.content.record)
        let fileKey = Known.fileKey()
        let headKey = try fileKey.headKey(of: prefix.fileID)
        try hold((try? head.authenticate(under: headKey)) == nil, "a foreign seal is good")
        try hold((try? head.content.authenticate(in: prefix, under: headKey)) == nil, "a foreign seal is good")
        try hold((try? head.checkCommitment(of: fileKey)) == nil, "a foreign commitment is good")
        var wrap = head.wrap
        wrap.commitment = try fileKey.commitment(of: prefix.fileID)
        let text = [UInt8](repeating: 7, count: record.isInline ? Int(record.size) : 0)
        let inline = try text.withUnsafeBytes { text in
            try record.isInline ? InlineFile.seal(text, counter: record.counter, in: prefix, under: headKey) : []
        }
        let sealed = head.replacing(wrap: wrap, bytes: try wrap.sealed(in: prefix, under: headKey))
            .replacing(content: try record.sealed(in: prefix, under: headKey), inline: inline)
        let again = try Head(decoding: sealed.encoded())
        try hold(again == sealed, "a sealed head reads as another one")
        try hold((try? again.content.authenticate(in: prefix, under: headKey)) != nil, "content record")
        try hold((try? again.authenticate(under: headKey)) != nil, "a good seal is refused")
        try hold((try? again.checkCommitment(of: fileKey)) != nil, "a good commitment is refused")
        guard record.isInline else { return }
        var opened = [UInt8](repeating: 0, count: text.count)
        try opened.withUnsafeMutableBytes { opened in
            try InlineFile.open(again.inline, counter: record.counter, in: prefix, under: headKey, into: opened)
            try hold(opened.allSatisfy { $0 == 7 }, "an inline file opens as another one")
            let foreign: Void? = try? InlineFile.open(
                head.inline, counter: record.counter, in: prefix, under: headKey, into: opened)
            try hold(foreign == nil, "a foreign inline file opens")
        }
    }

    private static func judge(_ slots: [[UInt8]], isLocked: Bool) throws {
        let scratch = try Self.scratch.get()
        let bytes = Array(slots.joined().prefix(2 * Head.length))
        try scratch.hold([(0, bytes)])
        let pair: HeadPair
        do throws(Trouble) { pair = try HeadPair(reading: scratch.file, isLocked: isLocked) } catch {
            _ = error.reported
            return
        }
        let other = try? Head(decoding: pair.slots[pair.target])
        let isOtherGood = try Head.isGood(pair.slots[pair.target])
        try hold(!isOtherGood || pair.head.generation >= other?.generation ?? 0, "an older head is in force")
        try hold(try pair.isUnchanged(in: scratch.file) && !pair.hasChanged(in: scratch.file), "it has changed")
        var mirrored = pair
        mirrored.mirror()
        try hold(mirrored.isMirrored && !mirrored.hasStaleWrap, "a mirrored pair is none")
        try hold(!pair.isMirrored || !pair.hasStaleWrap, "a stale wrap in a mirrored pair")
    }

    private static let scratch = Result { try ScratchFile() }
}
