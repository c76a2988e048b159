import Foundation
import KernelKeyring
import SystemPackage
import Testing

@Suite("A key in the user keyring")
struct RingKeyTests {
    private let payload: [UInt8] = Array(1...56)

    @Test("An absent key is ENOKEY")
    func absent() throws {
        let scratch = ScratchKey()
        #expect(scratch.absence == .requiredKeyNotAvailable)
    }

    @Test("A loaded key is found and read")
    func loadFindRead() throws {
        let scratch = ScratchKey()
        let serial = try scratch.load(payload)
        #expect(try scratch.key.find() == serial)
        #expect(serial.payload() == .success(payload))
        #expect(serial.keyDescription() == scratch.key.description)
    }

    @Test("A read tells the whole length, whatever the buffer holds")
    func readTellsLength() throws {
        let scratch = ScratchKey()
        let serial = try scratch.load(payload)
        var small = [UInt8](repeating: 0, count: 10)
        let count = try small.withUnsafeMutableBytes { try serial.read(into: $0) }
        #expect(count == payload.count)
        #expect(try KeySerial.userKeyring.members().contains(serial))
    }

    @Test("The uid may view, read, search and set attributes; nobody else anything", arguments: KeyCondition.allCases)
    func permissions(before: KeyCondition) async throws {
        let scratch = ScratchKey()
        _ = try before.make(scratch, payload: [9])
        let serial = try scratch.load(payload)
        #expect(RingKey.permissions == 0x3F2B_0000)
        #expect(serial.permissions == 0x3F2B_0000)
    }

    @Test("A load puts the new payload there in any earlier condition of the key", arguments: KeyCondition.allCases)
    func loadOver(before: KeyCondition) async throws {
        let scratch = ScratchKey()
        let old = try before.make(scratch, payload: [9, 9, 9])
        #expect(scratch.absence == before.searchError, "the condition was not made")
        let serial = try scratch.load(payload)
        #expect(try scratch.key.find() == serial)
        #expect(serial.payload() == .success(payload))
        if let old, old != serial { #expect(throws: Errno.self) { try old.payload().get() } }
    }

    @Test(
        "A load over a dead key makes a new one: the old serial stays dead",
        arguments: [KeyCondition.expired, .revoked])
    func deadStaysDead(before: KeyCondition) async throws {
        let scratch = ScratchKey()
        let old = try #require(try before.make(scratch, payload: [9, 9, 9]))
        let serial = try scratch.load(payload)
        #expect(serial != old)
        let error = #expect(throws: Errno.self) { try old.payload().get() }
        #expect(error.map(RingKey.isAbsent) == true)
    }

    @Test("A load ends an armed timeout")
    func loadEndsTimeout() throws {
        let scratch = ScratchKey()
        let serial = try scratch.load(payload)
        try RingWriter.run { () throws(Errno) in try scratch.key.setTimeout(seconds: 1000) }
        let armed = try #require(serial.timeoutColumn, "/proc/keys does not list the key")
        #expect(armed != "perm")
        #expect(try scratch.load([1, 2]).timeoutColumn == "perm")
    }

    @Test("At no moment of a load is there a key without its timeout, or one that others can read")
    func timeoutFromTheBeginning() throws {
        let scratch = ScratchKey()
        try scratch.load([0], seconds: 1000)
        // A thread of its own: a task might have to wait until nobody looks any more.
        let loader = Thread { for round in 1...200 { _ = try? scratch.load([UInt8(round)], seconds: 1000) } }
        var seen: Set<String> = []
        loader.start()
        var isLast = false
        repeat {
            // Once more when all is done: what was found may be replaced before it is looked at.
            isLast = loader.isFinished
            let key = try scratch.key.find()
            if key.timeoutColumn == "perm" { seen.insert("for ever") }
            if let permissions = key.permissions { seen.insert(String(permissions, radix: 16)) }
        } while !isLast
        #expect(seen == [String(RingKey.permissions, radix: 16)])
        #expect(try scratch.key.find().payload() == .success([200]))
    }

    @Test("A timeout of 0 seconds ends an armed one")
    func zeroEndsTimeout() throws {
        let scratch = ScratchKey()
        let serial = try scratch.load(payload)
        try RingWriter.run { () throws(Errno) in try scratch.key.setTimeout(seconds: 1000) }
        #expect(serial.timeoutColumn != "perm")
        try RingWriter.run { () throws(Errno) in try scratch.key.setTimeout(seconds: 0) }
        #expect(serial.timeoutColumn == "perm")
    }

    @Test("A timeout of an absent key is ENOKEY")
    func timeoutOfNothing() {
        let scratch = ScratchKey()
        #expect(throws: Errno.requiredKeyNotAvailable) {
            try RingWriter.run { () throws(Errno) in try scratch.key.setTimeout(seconds: 5) }
        }
    }

    @Test("A payload that the kernel refuses leaves nothing behind")
    func refusedPayload() {
        let scratch = ScratchKey()
        // 32,767 bytes is the most a key of type `user` holds.
        #expect(throws: Errno.invalidArgument) { try scratch.load([UInt8](repeating: 1, count: 32_768)) }
        #expect(scratch.absence == .requiredKeyNotAvailable)
    }

    @Test("Four errors mean: not here; all others are errors")
    func absenceTable() {
        let absent: [Errno] = [.requiredKeyNotAvailable, .keyRevoked, .keyExpired, .permissionDenied]
        for error in absent { #expect(RingKey.isAbsent(error), "\(error)") }
        let others: [Errno] = [.notPermitted, .noFunction, .invalidArgument, .noMemory, Errno(rawValue: 122)]
        for error in others { #expect(!RingKey.isAbsent(error), "\(error)") }
    }

    @Test("Descriptions are found by their prefix, dead keys included", arguments: KeyCondition.allCases)
    func descriptions(of condition: KeyCondition) async throws {
        let (scratch, other) = (ScratchKey(), ScratchKey())
        _ = try condition.make(scratch, payload: payload)
        try other.load(payload)
        let found = try RingKey.descriptions(withPrefix: String(scratch.key.description.dropLast(4)))
        #expect(found == (condition == .absent ? [] : [scratch.key.description]))
    }

    @Test("A description with colons and spaces comes back whole")
    func oddDescriptions() async throws {
        let scratch = ScratchKey()
        let odd = RingKey(description: scratch.key.description + ": 12: a b: 7")
        try RingWriter.run { () throws(Errno) in
            _ = try odd.load(lending: payload)
            try odd.setTimeout(seconds: 1)
        }
        for _ in 0..<400 where odd.absence != .keyExpired { usleep(25_000) }
        #expect(try RingKey.descriptions(withPrefix: scratch.key.description) == [odd.description])
        try RingWriter.run { () throws(Errno) in try odd.evict() }
        #expect(try RingKey.descriptions(withPrefix: scratch.key.description) == [])
    }
}
