import CKeyutils
import Glibc
import KernelKeyring
import KeyQuota
import SystemPackage
import Testing

@Suite("The thread that writes to the ring")
struct RingWriterTests {
    @Test("Gives back what the body returns")
    func returns() throws {
        #expect(try RingWriter.run { () throws(Errno) in 42 } == 42)
    }

    @Test("Throws what the body throws")
    func throwing() {
        #expect(throws: Errno.keyExpired) { try RingWriter.run { () throws(Errno) in throw .keyExpired } }
    }

    @Test("Is not the caller's thread")
    func ownThread() throws {
        let caller = pthread_self()
        let writer = try RingWriter.run { () throws(Errno) in pthread_self() }
        #expect(pthread_equal(caller, writer) == 0)
    }

    @Test("Possesses the user keyring in a fresh session; nobody else does, neither meanwhile nor afterwards")
    func possession() throws {
        let scratch = ScratchKey()
        // Who possesses the key may read it, the same uid may only view it: what add_key(2) gives.
        let serial = try scratch.addHalfMade([1, 2, 3])
        try FreshSession.run {
            #expect(serial.payload() == .failure(.permissionDenied), "before")
            try RingWriter.run { () throws(Errno) in
                #expect(serial.payload() == .success([1, 2, 3]), "in the writer")
                #expect(Self.hasThreadKeyring)
                #expect(throws: Never.self) {
                    try FreshSession.run { #expect(serial.payload() == .failure(.permissionDenied), "meanwhile") }
                }
            }
            #expect(serial.payload() == .failure(.permissionDenied), "afterwards")
            #expect(!Self.hasThreadKeyring)
        }
    }

    @Test("Leaves no link behind when the body throws")
    func possessionAfterError() throws {
        let scratch = ScratchKey()
        let serial = try scratch.addHalfMade([1, 2, 3])
        try FreshSession.run {
            #expect(throws: Errno.keyExpired) { try RingWriter.run { () throws(Errno) in throw .keyExpired } }
            #expect(serial.payload() == .failure(.permissionDenied))
            #expect(!Self.hasThreadKeyring)
        }
    }

    @Test("Loads, arms, cancels and evicts in a fresh session, where the caller itself may not")
    func everyWrite() throws {
        let scratch = ScratchKey()
        try FreshSession.run {
            let halfMade = try KeySerial.userKeyring.add(scratch.key.description, lending: [1])
            #expect(throws: Errno.permissionDenied) { try halfMade.setPermissions(RingKey.permissions) }
            #expect(throws: Errno.permissionDenied) { try halfMade.setTimeout(seconds: 100) }

            let serial = try scratch.load([1, 2, 3])
            #expect(serial.payload() == .success([1, 2, 3]))
            try RingWriter.run { () throws(Errno) in try scratch.key.setTimeout(seconds: 1000) }
            #expect(serial.timeoutColumn != "perm")
            try RingWriter.run { () throws(Errno) in try scratch.key.setTimeout(seconds: 0) }
            #expect(serial.timeoutColumn == "perm")
            try scratch.evict()
            #expect(scratch.absence == .requiredKeyNotAvailable)
        }
    }

    @Test("Evicts in a fresh session, whatever is there", arguments: KeyCondition.allCases)
    func evictsInFreshSession(condition: KeyCondition) async throws {
        let scratch = ScratchKey()
        _ = try condition.make(scratch, payload: [1, 2, 3])
        try FreshSession.run { try scratch.evict() }
        #expect(scratch.absence == .requiredKeyNotAvailable)
    }

    @Test("Many at a time do not disturb each other")
    func manyThreads() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<16 {
                group.addTask {
                    let scratch = ScratchKey()
                    let payload = [UInt8](repeating: UInt8(number), count: 40)
                    for _ in 0..<20 {
                        KeyQuota.waitForRoom()
                        let serial = try scratch.load(payload)
                        #expect(serial.payload() == .success(payload))
                        try scratch.evict()
                        #expect(scratch.absence == .requiredKeyNotAvailable)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// Whether the calling thread has a thread keyring; asking does not make one.
    private static var hasThreadKeyring: Bool {
        keyctl_get_keyring_ID(KeySerial.threadKeyring.rawValue, 0) >= 0
    }
}
