import DataProtection
import Glibc
import SystemPackage

/// One of many in the order of locks and unlocks of a keybag.
///
///     lock COUNT               locks, and says how many of these locks were proven, and how many were not
///     unlock COUNT PASSCODE    loads keys, the passcode checked before, and says how many loads won, and how many met a lock
///     stay                     says `ready` when it has its turn, and leaves it when it gets a line
struct Turns {
    private let keybag: Keybag
    private let role: String
    private let rest: [String]

    private struct Unknown: Error { let role: String }

    init(_ keybag: Keybag, _ arguments: [String]) {
        self.keybag = keybag
        (role, rest) = (arguments[0], Array(arguments.dropFirst()))
    }

    func run() throws {
        switch role {
        case "lock": try lock(Int(rest[0])!)
        case "unlock": try unlock(Int(rest[0])!, rest[1])
        case "stay": try stay()
        default: throw Unknown(role: role)
        }
    }

    private func lock(_ count: Int) throws {
        var unproven = 0
        for _ in 0..<count {
            do throws(DataProtectionError) { _ = try keybag.lock(waiting: 0) } catch {
                guard case .because(KeybagFailure.lockUnproven) = error else { throw error }
                unproven += 1
            }
        }
        say("\(count - unproven) \(unproven)")
    }

    private func unlock(_ count: Int, _ passcode: String) throws {
        let secret = SecretBytes(byteCount: passcode.utf8.count) { $0.copyBytes(from: passcode.utf8) }
        let loaded = try keybag.file.load()
        let keys = try OpenedKeys(loaded, try keybag.openWithPasscode(secret, loaded), keybag.directory)
        var overtaken = 0
        for _ in 0..<count {
            let counter = try keybag.transition.readStrictly().counter
            do throws(DataProtectionError) { _ = try keybag.load(keys, seconds: nil, ifCounterIs: counter) } catch {
                guard case .because(KeybagFailure.lockedMeanwhile) = error else { throw error }
                overtaken += 1
            }
        }
        say("\(count - overtaken) \(overtaken)")
    }

    private func stay() throws {
        try keybag.transition.exclusively { _ in
            say("ready")
            _ = readLine()
        }
        say("done")
    }
}
