import CKeyutils
import Glibc
import KernelKeyring
import SystemPackage
import Testing

@Suite("Eviction", .timeLimit(.minutes(20)))
struct RingKeyEvictTests {
    private let payload: [UInt8] = Array(1...56)

    @Test("Leaves nothing, whatever was there", arguments: KeyCondition.allCases)
    func evicts(condition: KeyCondition) async throws {
        let scratch = ScratchKey()
        let serial = try condition.make(scratch, payload: payload)
        #expect(scratch.absence == condition.searchError, "the condition was not made")
        try scratch.evict()
        #expect(scratch.absence == .requiredKeyNotAvailable)
        if let serial {
            let error = #expect(throws: Errno.self) { try serial.payload().get() }
            #expect(error.map(RingKey.isAbsent) == true)
            #expect(try !KeySerial.userKeyring.members().contains(serial))
        }
        // /proc/keys lists a revoked key without any link until the kernel's collector comes by.
        while condition == .revoked, try !RingKey.descriptions(withPrefix: scratch.key.description).isEmpty {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(try RingKey.descriptions(withPrefix: scratch.key.description) == [])
    }

    @Test("Twice is as good as once", arguments: KeyCondition.allCases)
    func twice(condition: KeyCondition) async throws {
        let scratch = ScratchKey()
        _ = try condition.make(scratch, payload: payload)
        try scratch.evict()
        try scratch.evict()
        #expect(scratch.absence == .requiredKeyNotAvailable)
    }

    @Test("A further link to the key keeps nothing alive", arguments: [false, true])
    func furtherLinks(hasExpired: Bool) throws {
        let scratch = ScratchKey()
        let serial = try scratch.load(payload)
        let session = KeySerial(rawValue: KEY_SPEC_SESSION_KEYRING)
        try FreshSession.run {
            try RingWriter.run { () throws(Errno) in
                try session.link(serial)
                if hasExpired { try serial.setTimeout(seconds: 1) }
            }
            #expect(try session.members() == [serial])
            for _ in 0..<400 where hasExpired && scratch.absence != .keyExpired { usleep(25_000) }
            #expect(scratch.absence == (hasExpired ? .keyExpired : nil))
            try scratch.evict()
            let error = #expect(throws: Errno.self) { try serial.payload().get() }
            #expect(error.map(RingKey.isAbsent) == true)
            #expect(scratch.absence == .requiredKeyNotAvailable)
        }
    }

    @Test("A key that cannot be removed is an error, not a success")
    func unremovable() throws {
        let scratch = ScratchKey()
        let serial = try scratch.load(payload)
        try RingWriter.run { () throws(Errno) in try serial.setPermissions(0) }
        #expect(throws: Errno.permissionDenied) { try scratch.evict() }
        #expect(scratch.absence == .permissionDenied)
        try RingWriter.run { () throws(Errno) in try KeySerial.userKeyring.unlink(serial) }
        #expect(scratch.absence == .requiredKeyNotAvailable)
    }

    @Test("Other keys stay")
    func others() throws {
        let (scratch, other) = (ScratchKey(), ScratchKey())
        try scratch.load(payload)
        let serial = try other.load(payload)
        try scratch.evict()
        #expect(serial.payload() == .success(payload))
    }
}
