import Glibc
import SystemPackage

/// `/proc/keys`: which keys this process may view, the expired and revoked ones included. proc_keys(5).
///
/// It only leads to keys. Each user can let all others view a key, give it the name of one of ours, and put whole lines into a name: the kernel prints
/// names as they are. So the kernel is asked for each key, by its serial, whose it is and what it is called.
enum ProcKeys {
    /// A key of this process's user.
    struct Entry {
        let serial: KeySerial
        let description: String
        /// Whether the key has expired or was revoked. Nobody can read it then.
        let isDead: Bool
        /// In seconds, as far as it is told; nil: it stays. Another user who finds the serial can make it look shorter, and not longer.
        let timeLeft: Range<UInt64>?
    }

    /// Keys of type `user` that are this user's and have a name that is wanted, but for invalidated ones, which only wait for the kernel's collector.
    /// Empty where there is no such file, or it may not be read, as in many containers.
    ///
    /// - Parameter onlyDead: leave out the living ones.
    /// - Throws: why the file could not be read to its end: EMFILE, for example.
    static func userKeys(onlyDead: Bool = false, where isWanted: (String) -> Bool) throws(Errno) -> [Entry] {
        lazy var userKeyring = Set((try? KeySerial.userKeyring.members()) ?? [])
        return Dictionary(grouping: lines(in: try read()), by: \.serial).compactMap { serial, lines in
            // The genuine line is one of them. What others have put into names makes more.
            guard
                lines.contains(where: { $0.type == "user" && ($0.isDead || !onlyDead) && isWanted($0.description) })
            else { return nil }
            do throws(Errno) {
                let key = try serial.identity()
                guard !onlyDead, key.type == "user", key.owner == geteuid(), isWanted(key.description) else {
                    return nil
                }
                return Entry(serial: serial, description: key.description, isDead: false, timeLeft: shortest(lines))
            } catch {
                // The kernel does not say what a dead key was, but the user keyring has it only if it is ours. A wrong name does no harm then.
                let own = lines.first { $0.type == "user" && $0.owner == geteuid() && isWanted($0.description) }
                guard [.keyExpired, .keyRevoked].contains(error), let own, userKeyring.contains(serial) else {
                    return nil
                }
                return Entry(serial: serial, description: own.description, isDead: true, timeLeft: nil)
            }
        }
    }

    /// The earliest beginning and the earliest end in any of the lines.
    private static func shortest(_ lines: [Line]) -> Range<UInt64>? {
        let told = lines.compactMap(\.timeLeft)
        guard let first = told.map(\.lowerBound).min(), let last = told.map(\.upperBound).min() else { return nil }
        return first..<last
    }

    static func lines(in bytes: [UInt8]) -> [Line] { bytes.split(separator: 0x0A).compactMap(Line.init) }

    /// serial flags usage timeout permissions uid gid type description: summary
    struct Line {
        let serial: KeySerial
        let owner: UInt32
        let type: String
        let description: String
        let isDead: Bool
        let timeLeft: Range<UInt64>?

        fileprivate init?(_ bytes: ArraySlice<UInt8>) {
            let fields = bytes.split(separator: 0x20, maxSplits: 8).map { String(decoding: $0, as: UTF8.self) }
            guard fields.count == 9, let serial = UInt32(fields[0], radix: 16), let owner = Int64(fields[5]) else {
                return nil
            }
            self.serial = KeySerial(rawValue: Int32(bitPattern: serial))
            self.owner = UInt32(truncatingIfNeeded: owner)
            type = fields[7]
            let rest = fields[8].drop { $0 == " " }  // the type before it is padded
            description = String(rest[..<rest.summaryStart])
            isDead = fields[3] == "expd" || fields[1].contains("R")
            timeLeft = Self.timeLeft(fields[3])
        }

        /// `5s`, or whole minutes, hours, days, weeks, rounded down. A time longer than any timeout counts as none.
        private static func timeLeft(_ column: String) -> Range<UInt64>? {
            let units: [Character: UInt64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800]
            guard let unit = column.last.flatMap({ units[$0] }), let count = UInt64(column.dropLast()),
                count <= UInt64(UInt32.max) / unit
            else { return nil }
            return count * unit..<(count + 1) * unit
        }
    }

    private static func read() throws(Errno) -> [UInt8] {
        let file = open("/proc/keys", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else {
            let error = Errno.latest()
            guard error == .noSuchFileOrDirectory || error == .permissionDenied else { throw error }
            return []
        }
        defer { close(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = Glibc.read(file, &chunk, chunk.count)
            if count == 0 { return bytes }
            if count > 0 {
                bytes += chunk[..<count]
            } else if errno == EACCES {
                return []
            } else if errno != EINTR {
                throw Errno.latest()
            }
        }
    }
}

extension Substring {
    /// Where the summary behind the description begins, as in `protectfs:…:1: 56`; a revoked key has none.
    fileprivate var summaryStart: Index {
        guard let colon = lastIndex(of: ":"), self[index(after: colon)...].hasPrefix(" ") else { return endIndex }
        return colon
    }
}
