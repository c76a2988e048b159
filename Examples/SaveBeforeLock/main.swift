import DataProtection
import Foundation

// Saves text that is only in memory before a lock, whether the agent or a command locks.
let keybag = try Keybag.user
let draft = URL(fileURLWithPath: CommandLine.arguments.dropFirst().first ?? "draft")
let text = "not saved yet\n"

for await case .willBecomeUnavailable in keybag.protectedDataEvents {
    do {
        try Data(text.utf8).write(to: draft, options: .completeFileProtection, protectedBy: keybag)
    } catch {
        print("not saved: \(error)")  // a lock without a grace period leaves no time
    }
}
