import CKeyutils
import Glibc

/// An ordinary user may have 200 keys and 20,000 bytes of them, dead ones included until the kernel's collector comes by.
public enum KeyQuota {
    /// Waits while half of that is used up, two seconds at most. The tests make keys faster than the kernel forgets them.
    public static func waitForRoom() {
        var looks = 400
        while isShort, looks > 0 {
            looks -= 1
            usleep(5_000)
        }
    }

    /// What all keys of this user take up of the user's quota, in bytes.
    public static var bytes: Int { fields.last?.used ?? 0 }

    private static var isShort: Bool { fields.contains { 2 * $0.used > $0.most } }

    /// Keys, and bytes. From `/proc/key-users`: `uid: usage nkeys/nikeys qnkeys/maxkeys qnbytes/maxbytes`. proc(5).
    private static var fields: [(used: Int, most: Int)] {
        guard let file = fopen("/proc/key-users", "r") else { return [] }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let fields = text.split { $0 == " " || $0 == "\n" }
            guard fields.count >= 5, fields[0] == "\(geteuid()):" else { continue }
            return fields[3...4].compactMap { field in
                let numbers = field.split(separator: "/").compactMap { Int($0) }
                return numbers.count == 2 ? (numbers[0], numbers[1]) : nil
            }
        }
        return []
    }

    /// Takes all that this user may have of keys but `room` bytes, 63 at most; what it returns is for ``free(_:)``.
    public static func fill(leaving room: Int) -> [Int32] {
        var padding: [Int32] = []
        var size = 4096
        while size >= 64 {
            let serial = pad(padding.count, size)
            if serial >= 0 { padding.append(serial) } else { size /= 2 }
        }
        // A further name costs some bytes itself; the last ones go into a longer payload.
        size = 64
        while pad(padding.count - 1, size + 1) >= 0 { size += 1 }
        _ = pad(padding.count - 1, size - room)
        return padding
    }

    /// The same with any room, more or less.
    public static func fill(leavingAbout room: Int) -> [Int32] {
        guard room > 0 else { return fill(leaving: 0) }
        let payload = [UInt8](repeating: 0, count: room)
        let placeholder = add_key("user", "placeholder", payload, room, KEY_SPEC_USER_KEYRING)
        let padding = fill(leaving: 0)
        let full = bytes
        free([placeholder])
        // The kernel gives the room back when it has time for it.
        for _ in 0..<400 where bytes > full - room { usleep(5_000) }
        return padding
    }

    /// - Returns: its serial, or -1.
    private static func pad(_ number: Int, _ size: Int) -> Int32 {
        let payload = [UInt8](repeating: 0, count: size)
        return add_key("user", "padding-\(number)", payload, size, KEY_SPEC_USER_KEYRING)
    }

    public static func free(_ padding: [Int32]) {
        for serial in padding {
            keyctl_unlink(serial, KEY_SPEC_USER_KEYRING)
            keyctl_invalidate(serial)
        }
    }
}
