import SystemPackage

/// `/proc/keys`: the keys that this process may view, the expired and revoked ones included. proc_keys(5).
enum ProcKeys {
    /// One line of it.
    struct Entry {
        let serial: KeySerial
        let description: String
        /// Whether the key has expired or was revoked. Nobody can read it then.
        let isDead: Bool
        /// In seconds, as far as it is told; nil: it stays.
        let timeLeft: Range<UInt64>?
    }

    /// All `user` keys listed, but for invalidated ones, which only wait for the kernel's collector. Empty where the kernel has no such file.
    static func userKeys() -> [Entry] {
        guard let text = read() else { return [] }
        return text.split(separator: "\n").compactMap { line in
            // serial flags usage timeout permissions uid gid type description: summary
            let fields = line.split(separator: " ", maxSplits: 8, omittingEmptySubsequences: true)
            guard fields.count == 9, fields[7] == "user", !fields[1].hasSuffix("i"),
                let serial = UInt32(fields[0], radix: 16)
            else { return nil }
            let rest = fields[8].drop { $0 == " " }  // the type before it is padded
            return Entry(
                serial: KeySerial(rawValue: Int32(bitPattern: serial)), description: String(rest[..<rest.summaryStart]),
                isDead: fields[3] == "expd" || fields[1].contains("R"), timeLeft: timeLeft(fields[3]))
        }
    }

    /// `5s`, or whole minutes, hours, days, weeks, rounded down.
    private static func timeLeft(_ column: Substring) -> Range<UInt64>? {
        let units: [Character: UInt64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800]
        guard let unit = column.last.flatMap({ units[$0] }), let count = UInt64(column.dropLast()), count < 1 << 32
        else { return nil }
        return count * unit..<(count + 1) * unit
    }

    private static func read() -> String? {
        guard let file = try? FileDescriptor.open("/proc/keys", .readOnly, options: .closeOnExec) else { return nil }
        defer { try? file.close() }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16_384)
        while let count = try? chunk.withUnsafeMutableBytes({ try file.read(into: $0) }), count > 0 {
            bytes += chunk[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension Substring {
    /// Where the summary behind the description begins, as in `protectfs:…:1: 56`; a revoked key has none.
    fileprivate var summaryStart: Index {
        guard let colon = lastIndex(of: ":"), self[index(after: colon)...].hasPrefix(" ") else { return endIndex }
        return colon
    }
}
