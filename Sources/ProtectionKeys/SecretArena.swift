import CSecretMemory
import Synchronization

/// Where this process keeps its secret bytes; `protectfs status` shows it.
public enum SecretMemoryBacking: String, Sendable {
    /// memfd_secret(2): unreadable through `/proc/PID/mem`, never swapped, never in a core dump.
    case secretMemory
    /// mlock(2): never swapped, never in a core dump.
    case locked
    /// The kernel allowed neither (RLIMIT_MEMLOCK): not in a core dump, but may reach swap.
    case unlocked
}

/// The one place of this process where key bytes live. Slots are multiples of 64 bytes and zero while free.
///
/// One mapping for many keys: a mapping per key would cost two pages and 190 µs each.
final class SecretArena: Sendable {
    static let shared = SecretArena()

    private static let unit = 64
    private static let regionBytes = 256 * 1024

    private struct Region: @unchecked Sendable {  // the pointer is only used for slots handed out once
        let base: UnsafeMutableRawPointer
        let byteCount: Int
        var isTaken: [Bool]
        var firstFree = 0
    }

    private let regions = Mutex<[Region]>([])
    private let backingCode = Atomic<UInt32>(0)

    var backing: SecretMemoryBacking {
        if backingCode.load(ordering: .relaxed) == 0 { zeroAndRelease(reserve(byteCount: 1)) }
        return switch backingCode.load(ordering: .relaxed) {
        case PROTECTFS_BACKING_SECRET.rawValue: .secretMemory
        case PROTECTFS_BACKING_LOCKED.rawValue: .locked
        default: .unlocked
        }
    }

    /// Takes a zeroed slot of `byteCount` bytes.
    func reserve(byteCount: Int) -> UnsafeMutableRawBufferPointer {
        let units = max(1, (byteCount + Self.unit - 1) / Self.unit)
        let start = regions.withLock { regions in
            for index in regions.indices {
                if let start = Self.take(units, from: &regions[index]) { return start }
            }
            regions.append(makeRegion(atLeast: units * Self.unit))
            return Self.take(units, from: &regions[regions.count - 1])!
        }
        return UnsafeMutableRawBufferPointer(start: start, count: byteCount)
    }

    /// Wipes a slot and gives it back; the thread's vector registers, through which its bytes have gone, are wiped too.
    func zeroAndRelease(_ slot: UnsafeMutableRawBufferPointer) {
        guard let start = slot.baseAddress else { return }
        LibCrypto.cleanse(slot)
        protectfs_clear_vectors()
        let units = max(1, (slot.count + Self.unit - 1) / Self.unit)
        regions.withLock { regions in
            for index in regions.indices {
                let offset = start - regions[index].base
                guard offset >= 0, offset < regions[index].byteCount else { continue }
                let first = offset / Self.unit
                for unit in first..<first + units { regions[index].isTaken[unit] = false }
                regions[index].firstFree = min(regions[index].firstFree, first)
                return
            }
        }
    }

    private static func take(_ units: Int, from region: inout Region) -> UnsafeMutableRawPointer? {
        var run = 0
        for index in region.firstFree..<region.isTaken.count {
            if region.isTaken[index] {
                run = 0
                continue
            }
            run += 1
            guard run == units else { continue }
            let first = index - units + 1
            for taken in first...index { region.isTaken[taken] = true }
            if first == region.firstFree { region.firstFree = index + 1 }
            return region.base + first * unit
        }
        return nil
    }

    private func makeRegion(atLeast bytes: Int) -> Region {
        let byteCount = max(Self.regionBytes, (bytes + 4095) / 4096 * 4096)
        var backing = PROTECTFS_BACKING_PLAIN
        // Like Swift's own allocator, which does not return either when there is no memory left.
        guard let base = protectfs_secret_map(byteCount, &backing) else { fatalError("no memory for secrets") }
        if backing.rawValue > backingCode.load(ordering: .relaxed) {
            backingCode.store(backing.rawValue, ordering: .relaxed)
        }
        let isTaken = [Bool](repeating: false, count: byteCount / Self.unit)
        return Region(base: base, byteCount: byteCount, isTaken: isTaken)
    }
}
