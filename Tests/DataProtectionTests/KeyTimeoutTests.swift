import ProtectionFormat
import Testing

@testable import DataProtection

@Suite("The timeout that the kernel is told")
struct KeyTimeoutTests {
    private static let second: UInt64 = 1_000_000_000

    @Test("Ends at the time or within a second after it, never before, at whichever moment of a second it is told")
    func isNeverEarly() {
        for fraction in stride(from: 0, to: Self.second, by: 7_999_999) {
            let now = 1_790_000_000 * Self.second + fraction
            for left in [1, 500_000_000, Self.second, 10 * Self.second, 10 * Self.second + 1, 86_400 * Self.second] {
                let told = UInt64(KeyTimeout.seconds(for: left, wallTime: now))
                // What the kernel makes of it: key_set_timeout() in security/keys/keyctl.c of Linux.
                let expires = (now / Self.second + told) * Self.second
                #expect(expires >= now + left && expires < now + left + Self.second)
            }
        }
    }

    @Test("Is never 0, which would be for ever, nor less than a deadline that no number holds")
    func limits() {
        #expect(KeyTimeout.seconds(for: 0, wallTime: 5 * Self.second) == 1)
        #expect(KeyTimeout.seconds(for: .max, wallTime: 5 * Self.second - 1) == .max)
    }

    @Test("Looks come at the timeout and until the kernel has had its second; without a timeout there are none")
    func looks() {
        let (now, pause) = (100 * Self.second, Self.second / 5)
        #expect(KeyTimeout.nextLook([], now: now) == nil)
        #expect(KeyTimeout.nextLook([0, 0], now: now) == nil)
        #expect(KeyTimeout.nextLook([0, 130 * Self.second, 120 * Self.second], now: now) == 120 * Self.second)
        #expect(KeyTimeout.nextLook([now + 1], now: now) == now + pause)
        #expect(KeyTimeout.nextLook([now - Self.second], now: now) == now + pause)
        #expect(KeyTimeout.nextLook([now - 5 * Self.second], now: now) == nil, "it was of another key")
        #expect(KeyTimeout.nextLook([.max], now: now) == .max, "a forged number")
        #expect(KeyTimeout.nextLook([.max - 4 * Self.second, 1], now: now) == .max - 4 * Self.second)
    }

    @Test("The kernel keeps to it: the key of an armed lock is there until the deadline")
    func kernel() throws {
        for _ in 0..<3 {
            let bag = try TestKeybag(state: .unlocked)
            let armed = try #require(try bag.keybag.armLock(seconds: 1))
            while try bag.keybag.state() == .unlocked {}
            #expect(armed.secondsLeft == 0)
        }
    }
}
