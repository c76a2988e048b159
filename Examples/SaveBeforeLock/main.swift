import DataProtection
import Foundation

// What is only in memory is saved when a lock is coming, whoever locks: the agent after a screen lock, or a command.
let keybag = try Keybag.user
let draft = URL(fileURLWithPath: CommandLine.arguments.dropFirst().first ?? "draft")
var text = "not saved yet\n"

for await event in keybag.protectedDataEvents {
    do {
        switch event {
        case .willBecomeUnavailable:
            try Data(text.utf8).write(to: draft, options: .completeFileProtection, protectedBy: keybag)
        case .didBecomeUnavailable: text = ""
        case .didBecomeAvailable:
            text = String(decoding: try Data(contentsOf: draft, protectedBy: keybag), as: UTF8.self)
        }
    } catch {
        FileHandle.standardError.write(Data("\(event): \(error)\n".utf8))  // a lock without a grace left no time
    }
}
