import DataProtection
import Foundation

let keybag = try Keybag.user
guard keybag.isProtectedDataAvailable else {
    print("unlock first: protectfs unlock")
    exit(75)
}
