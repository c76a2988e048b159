import Testing

@testable import ProtectionKeys

@Suite struct NamesTests {
    @Test func aKeybagUUIDIsWrittenInLowerCaseWithFourHyphens() throws {
        let uuid = try KeybagUUID(bytes: [
            0x00, 0x0F, 0xF0, 0xFF, 0x12, 0x34, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF, 0x01, 0x02, 0x03, 0x0A,
        ])
        #expect(uuid.description == "000ff0ff-1234-4567-89ab-cdef0102030a")
    }

    @Test(arguments: (0...40).filter { $0 != 16 })
    func sixteenBytesOrNoName(length: Int) {
        let bytes = run(from: 0, count: length)
        #expect(throws: KeyError.wrongLength(of: "keybag UUID", expected: 16, actual: length)) {
            try KeybagUUID(bytes: bytes)
        }
        #expect(throws: KeyError.wrongLength(of: "file id", expected: 16, actual: length)) {
            try FileID(bytes: bytes)
        }
    }

    @Test func namesKeepTheirBytes() throws {
        let bytes = run(from: 0xA0, count: 16)
        #expect(try KeybagUUID(bytes: bytes).bytes == bytes)
        #expect(try FileID(bytes: bytes[...]).bytes == bytes)
    }

    /// RFC 9562 §5.4: version 4, variant 10; the other 122 bits are random.
    @Test func randomKeybagUUIDsAreVersion4() throws {
        var ones = [UInt8](repeating: 0, count: 16)
        var zeros = ones
        for _ in 0..<256 {
            let bytes = try KeybagUUID.random().bytes
            #expect(bytes[6] >> 4 == 0b0100)
            #expect(bytes[8] >> 6 == 0b10)
            for (index, byte) in bytes.enumerated() {
                ones[index] |= byte
                zeros[index] |= ~byte
            }
        }
        // Each free bit was one at least once, and zero at least once; that fails by chance once in 2^248 runs.
        var free = [UInt8](repeating: 0xFF, count: 16)
        free[6] = 0x0F
        free[8] = 0x3F
        #expect(zip(ones, zeros).map { $0 & $1 } == free)
    }

    @Test func randomFileIDsDiffer() throws {
        #expect(try Set((0..<64).map { _ in try FileID.random() }).count == 64)
    }

    @Test(
        arguments: [
            (ProtectionClass.complete, 1, [1, 1, 0, 0, 0]), (.completeUnlessOpen, 0x0102_0304, [2, 4, 3, 2, 1]),
            (.completeUntilFirstUserAuthentication, 256, [3, 0, 1, 0, 0]), (.none, .max, [4, 0xFF, 0xFF, 0xFF, 0xFF]),
        ] as [(ProtectionClass, UInt32, [UInt8])])
    func classAndGenerationAreFiveBytes(protectionClass: ProtectionClass, generation: UInt32, bytes: [UInt8]) throws {
        let name = try keyName(protectionClass, generation: generation)
        #expect(name.classAndGeneration == bytes)
        #expect(name.context == run(from: 0xA0, count: 16) + bytes)
    }
}
