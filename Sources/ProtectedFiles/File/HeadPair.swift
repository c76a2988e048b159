import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Something that looks damaged may be the sight of a commit in progress: look again under the slot lock.
package enum Trouble: Error {
    case suspect(DataProtectionError)
    case certain(DataProtectionError)

    /// What to report when there is no second look.
    package var reported: DataProtectionError {
        switch self {
        case .suspect(let error), .certain(let error): error
        }
    }

    /// An error of the bytes is suspect; one of the system, or of a missing key, is not.
    package init(_ error: DataProtectionError) {
        switch error {
        case .damaged, .because(FileFailure.otherKey): self = .suspect(error)
        default: self = .certain(error)
        }
    }
}

/// Both heads of a file as they were read, and which one is in force. FORMAT.md §3.7.
package struct HeadPair {
    /// The stored bytes of each slot; the second may be short, or zero, or both.
    package private(set) var slots: [[UInt8]]
    /// The slot in force.
    package private(set) var inForce: Int
    /// The head in force.
    package private(set) var head: Head

    /// Reads both heads and judges them.
    ///
    /// - Parameter isLocked: whether the caller holds the slot lock, so that a bad check is really a torn head.
    package init(reading file: LowerFile, isLocked: Bool) throws(Trouble) {
        let bytes: [UInt8]
        // Not the heads alone: new heads with old chunks would look damaged.
        file.forgetOldPages()
        do throws(DataProtectionError) { bytes = try file.bytes(at: 0, count: 2 * Head.length) } catch {
            throw .certain(error)
        }
        try self.init(bytes, of: file, isLocked: isLocked)
    }

    /// Judges heads that were read.
    ///
    /// - Parameter bytes: the first 8,192 of the file, or fewer if it is shorter.
    package init(_ bytes: [UInt8], of file: LowerFile, isLocked: Bool) throws(Trouble) {
        let length: UInt64
        do throws(DataProtectionError) {
            length = bytes.count == 2 * Head.length ? try file.length() : UInt64(bytes.count)
        } catch {
            throw .certain(error)
        }
        let slots = [Array(bytes.prefix(Head.length)), Array(bytes.dropFirst(Head.length))]
        let path = file.path
        let areEqual = slots[0] == slots[1]
        let isFirstGood = try Self.isGood(slots[0])
        let isGood = [isFirstGood, areEqual ? isFirstGood : try Self.isGood(slots[1])]
        guard isGood[0] || isGood[1] else { throw try Self.noHead(slots, path) }
        let first = isGood[0] ? try Self.decode(slots[0], path) : nil
        let second = areEqual ? first : isGood[1] ? try Self.decode(slots[1], path) : nil
        // Head 1 does not exist before the second commit.
        let isAlone = first?.generation == 1 && slots[1].allSatisfy { $0 == 0 }
        if !isLocked, !(isGood[0] && isGood[1]), !isAlone {
            throw .suspect(Self.damaged(path, "one head is torn"))
        }
        if let first, let second, first.prefix != second.prefix {
            throw .suspect(Self.damaged(path, "the two heads are of different files"))
        }
        if let first, first.generation >= second?.generation ?? 0 {
            (head, inForce) = (first, 0)
        } else if let second {
            (head, inForce) = (second, 1)
        } else {
            throw try Self.noHead(slots, path)
        }
        let needsBoth = head.generation > 1 || !head.content.record.isInline
        guard !needsBoth || length >= UInt64(ChunkLayout.firstChunk) else {
            throw .suspect(Self.damaged(path, "the file ends within its heads"))
        }
        self.slots = slots
    }

    /// Whether a head that differs from this pair's is there now: compares the clear bytes of both, read in one piece.
    ///
    /// What is read of the file after this is not older than these bytes, also where other machines write to it.
    package func hasChanged(in file: LowerFile) throws(DataProtectionError) -> Bool {
        file.forgetOldPages()
        let length = Head.length + Head.clearLength
        let result: Result<Bool, DataProtectionError> = withUnsafeTemporaryAllocation(byteCount: length, alignment: 8) {
            buffer in
            do throws(DataProtectionError) {
                let count = try file.read(into: buffer, at: 0)
                let first = UnsafeRawBufferPointer(rebasing: buffer[..<min(count, Head.length)])
                let second = UnsafeRawBufferPointer(rebasing: buffer[first.count..<count])
                return .success(!slots[0].beginsAs(first) || !slots[1].beginsAs(second))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// The slot that the next head goes into.
    package var target: Int { 1 - inForce }

    /// Whether both slots hold the same bytes, or there is only one yet.
    package var isMirrored: Bool { head.generation == 1 || slots[0] == slots[1] }

    /// Whether the other slot holds a wrap record that is not the one in force.
    package var hasStaleWrap: Bool {
        head.generation > 1 && slots[target].dropFirst(64).prefix(204) != slots[inForce].dropFirst(64).prefix(204)
    }

    /// Takes note of a head that was just written into ``target``.
    package mutating func put(_ head: Head, bytes: [UInt8]) {
        slots[target] = bytes
        inForce = target
        self.head = head
    }

    /// Takes note that the slot in force was copied over the other one.
    package mutating func mirror() { slots[target] = slots[inForce] }

    /// Whether both slots are there byte for byte as they were read, so that they need not be judged again.
    package func isUnchanged(in file: LowerFile) throws(DataProtectionError) -> Bool {
        file.forgetOldPages()
        let now = try file.bytes(at: 0, count: 2 * Head.length)
        return now.prefix(Head.length).elementsEqual(slots[0]) && now.dropFirst(Head.length).elementsEqual(slots[1])
    }

    private static func isGood(_ slot: [UInt8]) throws(Trouble) -> Bool {
        guard slot.first != 0 else { return false }  // a head that was never written costs no digest
        do throws(KeyError) { return try Head.isGood(slot) } catch { throw .certain(.cryptography(error)) }
    }

    private static func decode(_ slot: [UInt8], _ path: FilePath) throws(Trouble) -> Head {
        do throws(DataProtectionError) {
            return try withFormat(path) { () throws(FormatError) in try Head(decoding: slot) }
        } catch {
            // A good check under another magic is no plaintext.
            if case .notProtected = error { throw .suspect(damaged(path, "a head has another magic")) }
            throw Trouble(error)
        }
    }

    private static func noHead(_ slots: [[UInt8]], _ path: FilePath) throws(Trouble) -> Trouble {
        let second = Array(slots[1].prefix(Prefix.magic.count))
        do throws(KeyError) {
            guard try Head.looksLikeOurs(start: slots[0], second: second) else {
                return .certain(
                    try Mangling(in: slots[0]).map { DataProtectionError.because(FileFailure.mangled(path, $0)) }
                        ?? .notProtected(path))
            }
        } catch {
            throw .certain(.cryptography(error))
        }
        return .suspect(damaged(path, "no head has a good check"))
    }

    private static func damaged(_ path: FilePath, _ reason: String) -> DataProtectionError {
        .damaged(path, .head, reason: reason, offset: nil)
    }
}

extension [UInt8] {
    /// Whether the clear bytes of this slot are those of another reading. There are fewer only where the file ends.
    fileprivate func beginsAs(_ now: UnsafeRawBufferPointer) -> Bool {
        let count = Swift.min(self.count, Head.clearLength)
        guard Swift.min(now.count, Head.clearLength) == count else { return false }
        return withUnsafeBytes { own in
            guard count > 0, let own = own.baseAddress, let now = now.baseAddress else { return count == 0 }
            return memcmp(own, now, count) == 0
        }
    }
}
