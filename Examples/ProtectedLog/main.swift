import DataProtection
import Foundation
import Logging

// ProtectedLog LOG FIRST COUNT: logs COUNT lines, and prints the number of each line when it is on disk. Lock, unlock, rotate
// the log and kill the program meanwhile: after the next unlock every printed line is in LOG, LOG.1, LOG.2 … exactly once.

let arguments = CommandLine.arguments
guard arguments.count == 4, let first = Int(arguments[2]), let count = Int(arguments[3]) else {
    fatalError("usage: ProtectedLog LOG FIRST COUNT")
}
let log = try SegmentedLog(FilePath(arguments[1]), keybag: Keybag.user)
LoggingSystem.bootstrap { label in
    ProtectedLogHandler(label: label, log: log) { error in
        // A service would say so somewhere else; here the line is not acknowledged.
        fatalError("a line was not written: \(error)")
    }
}
let logger = Logger(label: "example")
for number in first..<first + count {
    logger.info("line \(number)", metadata: ["lock": "\(keybagState())"])
    print(number)
    fflush(nil)
    if number % 100 == 99 { try log.rotate(keeping: 1000) }
}
try log.close()

/// The state that this line is logged in.
func keybagState() -> String { ((try? Keybag.user.state()) ?? .beforeFirstUnlock).rawValue }
