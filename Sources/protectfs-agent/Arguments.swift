import DataProtection
import Glibc
import LockSchedule

/// `--keybag DIR`, `--grace`, `--idle` and `--max` in seconds: what `protectfs agent run` passes on when it has checked it.
struct Arguments {
    /// Nil: the user's own, and every one that has keys in the ring.
    private(set) var keybag: FilePath?
    private(set) var limits = LockSchedule.Limits()

    init(_ words: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, count: Int) throws(Ending) {
        for index in stride(from: 1, to: count, by: 2) {
            guard let name = words[index].map({ String(cString: $0) }), index + 1 < count, let value = words[index + 1]
            else { throw Self.usage }
            let seconds = UInt32(String(cString: value))
            switch (name, seconds) {
            // Byte for byte: it need not be UTF-8.
            case ("--keybag", _): keybag = FilePath(platformString: value)
            case ("--grace", let seconds?): limits.grace = seconds
            case ("--idle", let seconds?): limits.idle = seconds
            case ("--max", let seconds?): limits.longest = seconds
            default: throw Self.usage
            }
        }
    }

    private static var usage: Ending {
        Ending(
            .usage, "usage: protectfs-agent [--keybag DIR] [--grace S] [--idle S] [--max S]; see protectfs agent run")
    }
}

extension LockSchedule.Limits {
    /// For the log.
    var spoken: String {
        var text = "grace \(grace) s"
        if let idle { text += ", idle \(idle) s" }
        if let longest { text += ", max \(longest) s" }
        return text
    }
}
