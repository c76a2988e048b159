import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// The class keys that one operation is lent.
@Suite struct KeySessionTests {
    private let bed: FileTestBed
    init() throws { bed = try FileTestBed() }

    /// Which of class keys A, B and C it lends.
    private func lent(_ session: inout KeySession) throws(DataProtectionError) -> [Bool] {
        func name(_ protectionClass: ProtectionClass) -> ClassKeyName { bed.keybag.activeName(protectionClass) }
        let hasA = try session.withClassKey(name(.complete)) { _ throws(DataProtectionError) in true }
        let hasB = try session.withClassB(name(.completeUnlessOpen)) { _ throws(DataProtectionError) in true }
        let nameC = name(.completeUntilFirstUserAuthentication)
        let hasC = try session.withClassKey(nameC) { _ throws(DataProtectionError) in true }
        return [hasA ?? false, hasB ?? false, hasC ?? false]
    }

    @Test("A session reads each key of the ring once, and keeps it for nobody else")
    func once() throws {
        var session = KeySession(bed.keybag)
        #expect(try lent(&session) == [true, true, true])
        try bed.keybag.evictEverything()
        #expect(try lent(&session) == [true, true, true], "the ring was read again")
        var next = KeySession(bed.keybag)
        #expect(try lent(&next) == [false, false, false], "a session lasted longer than its operation")
        try bed.enter(.locked)
        #expect(try lent(&next) == [false, false, false], "the ring was read again")
        var last = KeySession(bed.keybag)
        #expect(try lent(&last) == [false, false, true])
    }

    @Test("A session that began before a rotation lends the new keys too, unless there was a lock meanwhile")
    func rotated() throws {
        var session = KeySession(bed.keybag)
        var other = KeySession(bed.keybag)
        #expect(try lent(&session) == [true, true, true])
        #expect(try lent(&other) == [true, true, true])
        let old = bed.keybag.activeName(.complete)
        try bed.bag.rotate()
        #expect(bed.keybag.activeName(.complete) != old)
        #expect(try lent(&session) == [true, true, true])
        try bed.keybag.lock()
        #expect(try lent(&other) == [false, false, true])
    }

    @Test("A key that somebody planted in the ring is not lent, and the genuine ones beside it are")
    func planted() throws {
        var payload = try bed.bag.payload(.unlocked)
        payload[16 + 8] ^= 1  // the first byte of the key of A
        try bed.bag.plant(.unlocked, payload)
        var session = KeySession(bed.keybag)
        #expect(try lent(&session) == [false, true, true])
    }

    @Test("A lock waits for an operation from its first look for class keys A and B, and for nothing else")
    func counted() throws {
        // What is counted is not waited for here: it ends only after the lock.
        func isClean(waiting: Double) throws -> Bool { try bed.keybag.lock(waiting: waiting).isClean }
        func look(isCounted: Bool, at protectionClass: ProtectionClass) throws -> Bool {
            try bed.bag.unlock()
            var session = KeySession(bed.keybag, isCounted: isCounted)
            let name = bed.keybag.activeName(protectionClass)
            #expect(try session.withClassKey(name) { _ throws(DataProtectionError) in true } == true)
            #expect((session.use != nil) == (isCounted && protectionClass == .complete))
            let isClean = try isClean(waiting: session.use == nil ? 1 : 0)
            // The session is not over before this.
            #expect(try session.withClassKey(name) { _ throws(DataProtectionError) in true } == true)
            return isClean
        }
        #expect(try !look(isCounted: true, at: .complete))
        #expect(try isClean(waiting: 1), "its operation is over")
        #expect(try look(isCounted: false, at: .complete))
        #expect(try look(isCounted: true, at: .completeUntilFirstUserAuthentication))
    }
}
