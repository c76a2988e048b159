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
