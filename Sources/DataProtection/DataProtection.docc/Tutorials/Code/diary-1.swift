import DataProtection
import Foundation

let keybag = try Keybag.user
