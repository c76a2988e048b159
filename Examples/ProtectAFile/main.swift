import DataProtection
import Foundation

let keybag = try Keybag.user
guard keybag.isProtectedDataAvailable else { fatalError("unlock first: protectfs unlock") }

let diary = URL(fileURLWithPath: CommandLine.arguments.dropFirst().first ?? "diary")
try Data("dear diary\n".utf8).write(to: diary, options: [.atomic, .completeFileProtection], protectedBy: keybag)

let text = try Data(contentsOf: diary, protectedBy: keybag)
print(String(decoding: text, as: UTF8.self), terminator: "")
