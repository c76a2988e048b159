import Glibc
import ProtectionDownloads

// A process that runs a list of downloads, for tests that kill it:
//
//     download-worker KEYBAG          until it is killed, or SIGTERM
//     download-worker KEYBAG idle     until nothing goes on by itself

guard CommandLine.arguments.count >= 2 else { exit(64) }
let untilIdle = CommandLine.arguments.dropFirst(2).first == "idle"
do {
    let queue = try DownloadQueue(Keybag(at: FilePath(CommandLine.arguments[1])))
    try await queue.run(untilIdle: untilIdle)
} catch {
    print("error \(error)")
    exit(1)
}
