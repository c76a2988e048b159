import Foundation

/// How often bytes are in the memory of this process.
public enum MemoryCopies {
    /// Counts the copies of 16 of the bytes, from the 17th on, without those at `bytes` themselves.
    public static func count(of bytes: UnsafeRawBufferPointer) throws -> Int {
        let memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
        guard memory >= 0 else { throw EmulatedTPM.Failure(description: "/proc/self/mem: \(errno)") }
        defer { close(memory) }
        let size = 1 << 20
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 4096)
        defer { buffer.deallocate() }
        let own = UInt(bitPattern: buffer.baseAddress!)..<UInt(bitPattern: buffer.baseAddress!) + UInt(size)
        let needle = UnsafeRawBufferPointer(rebasing: bytes[16..<32])
        let place = UInt(bitPattern: needle.baseAddress!)
        var count = 0
        for line in try String(contentsOfFile: "/proc/self/maps", encoding: .utf8).split(separator: "\n") {
            let fields = line.split(separator: " ")
            let bounds = fields[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
            guard bounds.count == 2, fields[1].hasPrefix("rw") else { continue }
            var start = bounds[0]
            while start < bounds[1] {
                let read = pread(memory, buffer.baseAddress, min(size, Int(bounds[1] - start)), off_t(start))
                guard read > 0 else { break }
                var offset = 0
                while offset + needle.count <= read,
                    let found = memchr(
                        buffer.baseAddress! + offset, Int32(needle[0]), read - offset - needle.count + 1)
                {
                    let hit = UnsafeRawPointer(found) - UnsafeRawPointer(buffer.baseAddress!)
                    let address = start + UInt(hit)
                    let isCopy = memcmp(found, needle.baseAddress!, needle.count) == 0
                    if isCopy, address != place, !own.contains(address) { count += 1 }
                    offset = hit + 1
                }
                memset(buffer.baseAddress!, 0, read)
                // Over the boundary too.
                start += UInt(read == size ? size - needle.count : read)
            }
        }
        return count
    }
}
