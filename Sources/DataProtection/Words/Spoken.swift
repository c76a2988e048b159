package import FoundationEssentials
import Glibc
package import SystemPackage

/// A time as the user's clock shows it.
package func spoken(time seconds: UInt64) -> String {
    var time = time_t(clamping: seconds)
    var local = tm()
    guard localtime_r(&time, &local) != nil else { return "\(seconds)" }
    var text = [CChar](repeating: 0, count: 64)
    let count = strftime(&text, text.count, "%Y-%m-%d %H:%M:%S", &local)
    return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// The same of a `Date`.
package func spoken(time: Date) -> String { spoken(time: UInt64(clamping: time.timeIntervalSince1970)) }

/// As ``spoken(seconds:)``; of a part of a second, the whole.
package func spoken(_ time: Duration) -> String { spoken(seconds: Int(clamping: time.wholeSeconds)) }

/// `59 s`, `3 min 20 s`, `2 h 5 min`, `1 d 3 h`.
package func spoken(seconds: Int) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")]
    guard let first = units.firstIndex(where: { seconds >= $0.0 }) else { return "0 s" }
    let (length, name) = units[first]
    let rest = seconds % length
    let text = "\(seconds / length) \(name)"
    guard first + 1 < units.count, rest / units[first + 1].0 > 0 else { return text }
    return text + " \(rest / units[first + 1].0) \(units[first + 1].1)"
}

/// `512 bytes`, `1.5 KiB`, `20.0 MiB`, `3.2 GiB`.
package func spoken(bytes: UInt64) -> String {
    let units: [(shift: UInt64, name: String)] = [(30, "GiB"), (20, "MiB"), (10, "KiB")]
    guard let unit = units.first(where: { bytes >> $0.shift > 0 }) else { return spoken(bytes, "byte") }
    let tenths = ((bytes >> (unit.shift - 10)) * 10) >> 10
    return "\(tenths / 10).\(tenths % 10) \(unit.name)"
}

extension Errno {
    /// errno of this thread, now.
    package static var current: Errno { Errno(rawValue: errno) }

    /// strerror(3), in lower case as all our messages are.
    package var spoken: String {
        let text = description
        return text.prefix(1).lowercased() + text.dropFirst()
    }
}

/// `1 file`, `2 files`.
package func spoken(_ count: some BinaryInteger, _ noun: String) -> String {
    "\(count) \(noun)\(count == 1 ? "" : "s")"
}
