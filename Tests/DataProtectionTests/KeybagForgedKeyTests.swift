import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// Any program of the same user may add keys to the user keyring, also under the names of ours.
@Suite("A forged key in the ring", .serialized)  // the longest one takes an eighth of a user's quota
struct KeybagForgedKeyTests {
    @Test("Availability is checked again each time: another payload, a lock and a timeout count at once")
    func available() throws {
        let bag = try TestKeybag(state: .unlocked)
        for _ in 0..<2 { #expect(bag.keybag.isProtectedDataAvailable) }
        let genuine = try bag.payload(.unlocked)
        // add_key(2) gives the key that is there another payload: it has the same serial.
        try bag.plant(.unlocked, genuine[..<24] + [genuine[24] ^ 1] + genuine[25...])
        #expect(!bag.keybag.isProtectedDataAvailable)
        try bag.plant(.unlocked, genuine)
        for _ in 0..<2 { #expect(bag.keybag.isProtectedDataAvailable) }
        try bag.keybag.lock()
        #expect(!bag.keybag.isProtectedDataAvailable)
        try bag.unlock()
        for _ in 0..<2 { #expect(bag.keybag.isProtectedDataAvailable) }
        try bag.setTimeout(.unlocked, seconds: 1)
        try bag.waitUntilExpired(.unlocked)
        #expect(!bag.keybag.isProtectedDataAvailable)
    }

    @Test("Is not used, whatever it looks like", arguments: Forgery.allCases)
    func notUsed(forgery: Forgery) throws {
        let bag = try TestKeybag(state: .unlocked)
        let (genuine1, genuine2) = (try bag.payload(.unlocked), try bag.payload(.firstUnlock))
        try bag.keybag.evictEverything()
        try bag.plant(.unlocked, forgery.bytes(like: genuine1))
        try bag.plant(.firstUnlock, forgery.bytes(like: genuine2))

        #expect(bag.ringContents == [1, 2])
        #expect(try bag.keybag.state() == .beforeFirstUnlock)
        #expect(!bag.keybag.isProtectedDataAvailable)
        for protectionClass in ProtectionClass.allCases where protectionClass != .none {
            #expect(try bag.keyID(protectionClass) == nil, "\(protectionClass)")
        }
        #expect(try bag.reopened().state() == .beforeFirstUnlock)
    }

    @Test("Of the one kind does not spoil the other", arguments: Forgery.allCases)
    func oneOfTwo(forgery: Forgery) throws {
        let bag = try TestKeybag(state: .unlocked)
        try bag.plant(.unlocked, forgery.bytes(like: try bag.payload(.unlocked)))
        #expect(try bag.keybag.state() == .locked)
        try bag.unlock()
        try bag.plant(.firstUnlock, forgery.bytes(like: try bag.payload(.firstUnlock)))
        #expect(try bag.keyID(.completeUntilFirstUserAuthentication) == nil)
        #expect(try bag.keyID(.complete) != nil)
    }

    @Test("Makes way for the genuine one at unlock", arguments: Forgery.allCases)
    func unlock(forgery: Forgery) throws {
        let bag = try TestKeybag(state: .unlocked)
        let id = try #require(try bag.keyID(.complete))
        try bag.plant(.unlocked, forgery.bytes(like: try bag.payload(.unlocked)))
        try bag.plant(.firstUnlock, forgery.bytes(like: try bag.payload(.firstUnlock)))
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
        #expect(try bag.keyID(.complete) == id)
    }

    @Test("Goes with a lock")
    func lock() throws {
        let bag = try TestKeybag()
        try bag.plant(.unlocked, [1, 2, 3])
        try bag.keybag.lock()
        #expect(bag.ringContents == [])
    }

    @Test("With one class forged is not unlocked", arguments: [0, 1])
    func oneClass(entry: Int) throws {
        let bag = try TestKeybag(state: .unlocked)
        var payload = try bag.payload(.unlocked)
        payload[16 + 40 * entry + 8] ^= 1  // the first byte of the key of A, or of B
        try bag.plant(.unlocked, payload)
        #expect(try bag.keybag.state() != .unlocked)
        #expect(!bag.keybag.isProtectedDataAvailable)
        #expect(try bag.keyID(entry == 0 ? .complete : .completeUnlessOpen) == nil)
        #expect(try bag.keyID(entry == 0 ? .completeUnlessOpen : .complete) != nil)
    }

    @Test("Beside genuine ones does not make status say that all keys are evicted", arguments: [0, 1, 2])
    func besideGenuine(entry: Int) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1])
        let genuine = try bed.bag.payload(.unlocked)
        // One class forged, of A, B and A of secrets; then all but that one.
        for isOnly in [false, true] {
            var payload = genuine
            for index in 0..<3 where (index == entry) != isOnly { payload[16 + 40 * index + 8] ^= 1 }
            try bed.bag.plant(.unlocked, payload)
            if entry == 2, !isOnly {
                #expect(try bed.keybag.status().state == .unlocked, "both class keys of files are there")
            } else {
                let error = expectError("keysIncomplete") { _ = try bed.keybag.status() }
                #expect(
                    error == .because(KeybagFailure.keysIncomplete(keybag: bed.bag.directory))
                        && error?.errno == .permissionDenied)
                #expect(!bed.keybag.isProtectedDataAvailable)
            }
            if entry == 0 ? isOnly : !isOnly { #expect(try bed.read(path) == [1]) }
        }
        try bed.keybag.lock()
        #expect(try bed.keybag.status().state == .locked)
    }

    @Test("Beside a genuine retired one, which opens old files: neither does it then")
    func besideRetired() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1])
        try bed.bag.rotate()
        var payload = try bed.bag.payload(.unlocked)
        for start in stride(from: 16, to: payload.count, by: 40) where payload[start + 4] == 2 {
            payload[start + 8] ^= 1
        }
        try bed.bag.plant(.unlocked, payload)
        #expect(try bed.read(path) == [1])
        expectError("keysIncomplete") { _ = try bed.keybag.status() }
        #expect(try bed.keybag.state() == .locked)
    }

    @Test("Alone counts as absent in status too", arguments: Forgery.allCases)
    func status(forgery: Forgery) throws {
        let bag = try TestKeybag(state: .unlocked)
        try bag.plant(.unlocked, forgery.bytes(like: try bag.payload(.unlocked)))
        #expect(try bag.keybag.status().state == .locked)
    }

    @Test("Of another keybag under this one's name is not used")
    func otherKeybag() throws {
        let (bag, other) = (try TestKeybag(), try TestKeybag(state: .unlocked))
        try bag.plant(.unlocked, try other.payload(.unlocked))
        try bag.plant(.firstUnlock, try other.payload(.firstUnlock))
        #expect(try bag.keybag.state() == .beforeFirstUnlock)
        #expect(try other.keybag.state() == .unlocked)
    }

    /// Who has the device key, which lies on the same disk, can make a B key that it vouches for.
    @Test("While there is any class key C in the ring, the device key does not vouch for B's public key")
    func deviceKeyIsNotEnough() throws {
        let bed = try FileTestBed()
        var copy = try StoredKeybag(of: bed.bag)
        copy.bytes[copy.entry(.completeUntilFirstUserAuthentication) + 8] ^= 1  // another id: that C is not in the ring
        copy.finish()
        try copy.store(in: bed.bag)
        #expect(try bed.keybag.state() == .unlocked)
        expectError("locked") { _ = try bed.make("f", .completeUnlessOpen) }
        #expect(try bed.names() == [])
        try bed.keybag.evictEverything()
        _ = try bed.make("before first unlock", .completeUnlessOpen)
        expectError("keybagDamaged") { try bed.bag.unlock() }
    }

    @Test("The genuine payload put back is what a lock would have to prevent: this test could fail")
    func genuine() throws {
        let bag = try TestKeybag(state: .unlocked)
        let payload = try bag.payload(.unlocked)
        try bag.keybag.lock()
        try bag.plant(.unlocked, payload)
        #expect(try bag.keybag.state() == .unlocked)
    }

    /// What a forger may write.
    enum Forgery: String, CaseIterable {
        case otherKeys, zeroKeys, swappedClasses, otherGeneration, otherKind, garbage, oneByte, empty, truncated
        case appended, tooLong, otherVersion, noEntries, moreEntriesThanThere

        /// - Parameter genuine: a payload of the keybag.
        func bytes(like genuine: [UInt8]) -> [UInt8] {
            let entries = stride(from: 16, to: genuine.count, by: 40)
            var bytes = genuine
            switch self {
            case .otherKeys: for entry in entries { bytes[entry + 8] &+= 1 }
            case .zeroKeys:
                for entry in entries {
                    bytes.replaceSubrange(entry + 8..<entry + 40, with: [UInt8](repeating: 0, count: 32))
                }
            case .swappedClasses: for entry in entries { bytes[entry + 1] = bytes[entry + 1] % 3 + 1 }
            case .otherGeneration: for entry in entries { bytes[entry + 4] = 2 }
            case .otherKind: for entry in entries { bytes[entry] = 1 }
            case .garbage: bytes = bytes.map { _ in UInt8.random(in: 0...255) }
            case .oneByte: bytes = [1]
            case .empty: bytes = [1, 0] + [UInt8](repeating: 0, count: 14)
            case .truncated: bytes.removeLast()
            case .appended: bytes.append(0)
            case .tooLong: bytes += [UInt8](repeating: 0, count: RingPayload.maximumLength + 1 - bytes.count)
            case .otherVersion: bytes[0] = 2
            case .noEntries: bytes[1] = 0
            case .moreEntriesThanThere: bytes[1] = 255
            }
            return bytes
        }
    }
}
