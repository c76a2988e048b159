import DataProtection
import Foundation

let keybag = try Keybag.user
guard keybag.isProtectedDataAvailable else {
    print("unlock first: protectfs unlock")
    exit(75)
}

let diary = URL(fileURLWithPath: "diary")
let entry = Data("Dear diary\n".utf8)
try entry.write(to: diary, options: [.atomic, .completeFileProtection], protectedBy: keybag)

do {
    let text = try Data(contentsOf: diary, protectedBy: keybag)
    print(String(decoding: text, as: UTF8.self), terminator: "")
} catch let error as CocoaError {
    guard error.dataProtectionError?.remedy == .unlock else { throw error }
    print("locked; the diary is read after the next unlock")
}

let inbox = URL(fileURLWithPath: "inbox-\(UUID().uuidString)")
try entry.write(to: inbox, options: [.atomic, .completeFileProtectionUnlessOpen], protectedBy: keybag)
