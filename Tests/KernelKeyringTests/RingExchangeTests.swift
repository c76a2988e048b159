import KernelKeyring
import SystemPackage
import Testing

@Suite("An exchange of several keys")
struct RingExchangeTests {
    private let one = ScratchKey("one")
    private let two = ScratchKey("two")

    /// Prepares new payloads for both keys, and hands on the exchange.
    private func exchange(
        seconds: UInt32 = 0, _ body: (RingExchange) throws(Errno) -> Void
    ) throws(Errno) {
        try RingWriter.run { () throws(Errno) in
            let exchange = RingExchange()
            try exchange.prepare(one.key, lending: [11])
            try exchange.prepare(two.key, lending: [22], seconds: seconds)
            try body(exchange)
        }
    }

    @Test("Nothing has changed before it is applied, and nothing is left of it afterwards")
    func prepared() throws {
        let old = try one.load([1])
        try exchange { _ throws(Errno) in
            #expect(old.payload() == .success([1]))
            #expect(two.absence == .requiredKeyNotAvailable)
        }
        #expect(try one.key.find() == old)
        #expect(old.payload() == .success([1]))
        #expect(two.absence == .requiredKeyNotAvailable)
    }

    @Test("Applied and finished, both have the new payloads, permissions and timeouts, and the old keys are dead")
    func finished() throws {
        let old = [try one.load([1], seconds: 1000), try two.load([2])]
        try exchange(seconds: 1000) { exchange throws(Errno) in
            try exchange.apply()
            exchange.finish()
        }
        let new = [try one.key.find(), try two.key.find()]
        #expect(new.map { $0.payload() } == [.success([11]), .success([22])])
        #expect(new.map(\.permissions) == [RingKey.permissions, RingKey.permissions])
        #expect(new[0].timeoutColumn == "perm")
        #expect(new[1].timeoutColumn != "perm")
        for key in old { #expect(throws: Errno.self) { try key.payload().get() } }
    }

    @Test("Undone, both names have their old keys again, with the timeouts of these, and the new keys are dead")
    func undone() throws {
        let old = [try one.load([1], seconds: 1000), try two.load([2])]
        var new: [KeySerial] = []
        try exchange { exchange throws(Errno) in
            try exchange.apply()
            new = [try one.key.find(), try two.key.find()]
            exchange.undo()
        }
        #expect(new.count == 2 && Set(new).isDisjoint(with: old))
        let now = [try one.key.find(), try two.key.find()]
        #expect(now == old)
        #expect(old.map { $0.payload() } == [.success([1]), .success([2])])
        #expect(old[0].timeoutColumn != "perm")
        #expect(old[1].timeoutColumn == "perm")
        for key in new { #expect(throws: Errno.self) { try key.payload().get() } }
    }

    @Test("Undone, a name that was free is free again")
    func undoneOfNothing() throws {
        try exchange { exchange throws(Errno) in
            try exchange.apply()
            #expect(one.absence == nil)
            exchange.undo()
        }
        #expect(one.absence == .requiredKeyNotAvailable)
        #expect(two.absence == .requiredKeyNotAvailable)
    }

    @Test("An undone exchange leaves keys alone that somebody else has evicted or loaded meanwhile")
    func overtaken() throws {
        try one.load([1])
        try two.load([2])
        try exchange { exchange throws(Errno) in
            try exchange.apply()
            // On another thread: somebody else has no keyring in common with this one.
            try RingWriter.run { () throws(Errno) in
                try one.key.evict()
                _ = try two.key.load(lending: [3])
            }
            exchange.undo()
        }
        #expect(one.absence == .requiredKeyNotAvailable)
        #expect(try two.key.find().payload() == .success([3]))
    }

    @Test("A key that is dead is exchanged for none", arguments: [KeyCondition.expired, .revoked])
    func dead(before: KeyCondition) throws {
        _ = try before.make(two, payload: [2])
        let error = try #require(before.searchError)
        #expect(throws: error) {
            try exchange { _ throws(Errno) in Issue.record("it was prepared") }
        }
        #expect(one.absence == .requiredKeyNotAvailable)
    }

    @Test("It works in a session that does not possess the user keyring")
    func freshSession() throws {
        let old = try one.load([1])
        try FreshSession.run {
            try exchange { exchange throws(Errno) in
                try exchange.apply()
                exchange.undo()
            }
        }
        #expect(try one.key.find() == old)
        #expect(old.payload() == .success([1]))
    }
}
