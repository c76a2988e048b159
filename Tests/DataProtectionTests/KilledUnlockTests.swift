import SystemPackage
import Testing

@testable import DataProtection

/// A process can be killed between two keyring calls, or stopped there and killed later: nobody is left then who would tidy up.
@Suite(
    "An unlock that is killed", .serialized,
    .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"))
struct KilledUnlockTests {
    @Test(
        "At any of its keyring calls: keys in the ring without the rest expire, and a lock and an unlock work",
        arguments: ["add_key", "keyctl"])
    func first(name: String) throws {
        let bag = try TestKeybag()
        var outcomes: [String] = []
        for number in 1...60 {
            try bag.keybag.evictEverything()
            let call = StormProcess.Call(name: name, number: number)
            let worker = try StormProcess(
                bag.directory, ["turns", "unlock", "1", TestKeybag.passcode], wrapper: call.wrapper)
            let line = try worker.line()
            _ = try? worker.kill(after: nil)  // it may have ended
            let (a, c) = (bag.timeoutColumn(.unlocked), bag.timeoutColumn(.firstUnlock))
            outcomes.append(
                "\(a == nil ? "-" : a == "perm" ? "kept" : "timed")/\(c == nil ? "-" : c == "perm" ? "kept" : "timed")")
            if line != nil {
                #expect(line == "1 0" && outcomes.last == "kept/kept", "\(call)")
                break
            }
            #expect(["-/-", "-/timed", "timed/timed", "timed/kept", "kept/kept"].contains(outcomes.last), "\(call)")
            let status = try bag.keybag.status()
            #expect(status.openClasses.contains(.completeUntilFirstUserAuthentication) == (c != nil), "\(call)")
            #expect(status.openClasses.contains(.complete) == (a != nil), "\(call)")
            if number % 2 == 0 { try bag.keybag.lock() }
            try bag.unlock()
            #expect(bag.timeoutColumn(.unlocked) == "perm" && bag.timeoutColumn(.firstUnlock) == "perm", "\(call)")
        }
        #expect(outcomes.last == "kept/kept", "it came to its end")
        // What makes this a test: the moments between.
        #expect(outcomes.contains(name == "add_key" ? "-/timed" : "timed/timed"), "\(outcomes)")
    }

    @Test("While class key C was there: it stays", arguments: [1, 2])
    func later(number: Int) throws {
        let bag = try TestKeybag(state: .locked)
        let call = StormProcess.Call(name: "add_key", number: number)
        let worker = try StormProcess(
            bag.directory, ["turns", "unlock", "1", TestKeybag.passcode], wrapper: call.wrapper)
        #expect(try worker.line() == nil)
        _ = try worker.kill(after: nil)
        #expect(bag.ringContents == [2])
        #expect(bag.timeoutColumn(.firstUnlock) == "perm")
    }
}
