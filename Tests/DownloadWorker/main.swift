import FoundationEssentials
import Glibc
import ProtectionDownloads

// A process that runs a list of downloads, for tests that kill it:
//
//     download-worker KEYBAG          until it is killed, or SIGTERM
//     download-worker KEYBAG idle     until nothing goes on by itself
//     download-worker KEYBAG get URL CERTIFICATE FILE     one download, to be measured

guard CommandLine.arguments.count >= 2 else { exit(64) }
let untilIdle = CommandLine.arguments.dropFirst(2).first == "idle"
do {
    let queue = try DownloadQueue(Keybag(at: FilePath(CommandLine.arguments[1])))
    if CommandLine.arguments.count == 6 {
        let anchors = try String(contentsOfFile: CommandLine.arguments[4], encoding: .utf8)
        var request = DownloadRequest(URL(string: CommandLine.arguments[3])!, to: FilePath(CommandLine.arguments[5]))
        request.trust = try ServerTrust(anchors: .only(try Certificate.all(pem: anchors)))
        _ = try await queue.add(request)
    }
    try await queue.run(untilIdle: untilIdle || CommandLine.arguments.count == 6)
} catch {
    print("error \(error)")
    exit(1)
}
