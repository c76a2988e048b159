import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

/// What the head that is not in force held before it was torn or altered, as far as its bytes still tell. Nobody vouches for them.
package enum DamagedSlot: Hashable {
    /// The content of the head in force, or an earlier one: nothing is missing.
    case notNewer
    /// A later state, or nobody knows what.
    case mayBeNewer
}

extension HeadPair {
    /// Judges the slot not in force; nil if it is good, or was never written. Called under the slot lock.
    package func damagedSlot() throws(KeyError) -> DamagedSlot? {
        let bytes = slots[target]
        guard bytes.count == Head.length, bytes != slots[inForce], try !Head.isGood(bytes) else { return nil }
        if head.generation == 1 {
            // Where nothing has been written yet, an inline file ends: other bytes there have been appended.
            guard head.content.record.isInline ? hasOwnPrefix(bytes) : bytes.contains(where: { $0 != 0 }) else {
                return nil
            }
        }
        // Two seals have nothing in common; one that was altered here and there has.
        let seal = Head.clearLength + 16 * head.content.record.holes.runs.count
        let alike = zip(bytes[seal..<seal + ChunkLayout.overhead], slots[inForce][seal...]).count { $0 == $1 }
        if 2 * alike >= ChunkLayout.overhead { return .notNewer }
        let records = Head.Records(in: bytes)
        guard records.prefix == head.prefix, let wrap = records.wrap, let content = records.content,
            wrap.counter + content.counter <= head.generation
        else { return .mayBeNewer }
        return .notNewer
    }

    /// Whether most of the 64 bytes that are the same in both heads of a file are there.
    private func hasOwnPrefix(_ bytes: [UInt8]) -> Bool {
        zip(bytes, slots[inForce].prefix(64)).count { $0 == $1 } >= 48
    }
}
