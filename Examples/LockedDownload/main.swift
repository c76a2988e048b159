import Foundation
import ProtectionDownloads

// Downloads a file and locks half way. The download continues in a file that nobody can read, and the file is `complete` after
// the next unlock. CERTIFICATE is for a server of your own; without it the system's roots are used.
//
//     LockedDownload URL FILE SHA256 [CERTIFICATE]
let words = CommandLine.arguments
guard words.count > 3, let url = URL(string: words[1]) else { exit(64) }
let keybag = try Keybag.user
let lockEvents = keybag.protectedDataEvents

var request = DownloadRequest(url, to: FilePath(words[2]))
let digits = Array(words[3])
let sum = stride(from: 0, to: digits.count - 1, by: 2).compactMap { UInt8(String(digits[$0...$0 + 1]), radix: 16) }
request.checks = [.digest(.sha256, sum)]
if words.count > 4 {
    request.trust = try ServerTrust(
        anchors: .only([Certificate(pem: String(contentsOfFile: words[4], encoding: .utf8))]))
}

let queue = try DownloadQueue(keybag)
let running = Task { try await queue.run() }
let download = try await queue.add(request)
var isLocked = false
for try await event in download.events {
    switch event {
    case .progress(let received, of: let length?) where received > length / 2 && !isLocked:
        try keybag.lock()
        isLocked = true
        print("locked at \(received * 100 / length) %")
    case .finished(let file): print("finished, class \(try ProtectedFileInfo(of: file.path).protectionClass)")
    case .failed(let failure): fatalError(failure.message)
    default: break
    }
}
running.cancel()

print("waiting for: protectfs unlock")
for await case .didBecomeAvailable in lockEvents { break }
try keybag.performQueuedWork()
print("now class \(try ProtectedFileInfo(of: request.target).protectionClass)")
