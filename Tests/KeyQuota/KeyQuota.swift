import Glibc

/// An ordinary user may have 200 keys and 20,000 bytes of them, dead ones included until the kernel's collector comes by.
public enum KeyQuota {
    /// Waits while half of that is used up, two seconds at most. The tests make keys faster than the kernel forgets them.
    public static func waitForRoom() {
        for _ in 0..<400 where isShort { usleep(5_000) }
    }

    /// From `/proc/key-users`: `uid: usage nkeys/nikeys qnkeys/maxkeys qnbytes/maxbytes`. proc(5).
    private static var isShort: Bool {
        guard let file = fopen("/proc/key-users", "r") else { return false }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let fields = text.split { $0 == " " || $0 == "\n" }
            guard fields.count >= 5, fields[0] == "\(geteuid()):" else { continue }
            return fields[3...4].contains { field in
                let numbers = field.split(separator: "/").compactMap { Int($0) }
                return numbers.count == 2 && 2 * numbers[0] > numbers[1]
            }
        }
        return false
    }
}
