import DataProtection
import Foundation

// Saves what is only in memory when a lock is coming, whoever locks: the agent after the screen, or a command.
let keybag = try Keybag.user
let draft = URL(fileURLWithPath: CommandLine.arguments.dropFirst().first ?? "draft")
let text = "not saved yet\n"

for await case .willBecomeUnavailable in keybag.protectedDataEvents {
    do {
        try Data(text.utf8).write(to: draft, options: .completeFileProtection, protectedBy: keybag)
    } catch {
        print("not saved: \(error)")  // a lock without a grace leaves no time
    }
}
