import Keybags
import SystemPackage

extension LockDoubt {
    /// Behind "the keys were evicted, but".
    ///
    /// - Parameter record: the file `transition`, quoted.
    func spoken(_ record: String) -> String {
        switch self {
        case .held(let processes):
            let holder = processes.isEmpty ? "another process" : Self.listed(processes)
            return "an unlock may load them again: \(holder) did not give back its lock on \(record) within a second"
        case .unwritable(let errno):
            return
                "an unlock that began before may load them again: \(record) cannot be opened, locked and written: \(errno.spoken)"
        }
    }

    /// What to do, and then to lock again.
    ///
    /// - Parameter lock: the command that locks.
    func hint(_ directory: FilePath, _ lock: String) -> String {
        switch self {
        case .held(let processes) where processes.isEmpty:
            "resume or end the protectfs command that is stopped, perhaps in a container, then: \(lock)"
        case .held(let processes):
            "if it is stopped, resume it (kill -CONT \(Self.numbers(processes))) or end it (kill -KILL \(Self.numbers(processes))); "
                + "then: \(lock)"
        case .unwritable(.noSpace), .unwritable(.diskQuotaExceeded): "free some disk space, then: \(lock)"
        case .unwritable(.readOnlyFileSystem): "lock where the file system is writable: \(lock)"
        case .unwritable(.permissionDenied), .unwritable(.notPermitted):
            "make it accessible: chmod 700 \(quoted(directory)); then: \(lock)"
        case .unwritable: "when that is fixed: \(lock)"
        }
    }

    private static func numbers(_ processes: [Int32]) -> String { processes.map(String.init).joined(separator: " ") }

    private static func listed(_ processes: [Int32]) -> String {
        (processes.count == 1 ? "process " : "processes ") + processes.map(String.init).joined(separator: " and ")
    }
}
