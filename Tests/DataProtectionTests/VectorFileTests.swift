import Foundation
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import TestVectors
import Testing

@testable import DataProtection

extension FormatVector: CustomTestStringConvertible {
    public var testDescription: String { name }
}

/// The files that Tests/ProtectionFormatTests/Vectors/make-vectors.py makes, through the whole library: handles, locks, ring.
@Suite(.serialized) struct VectorFileTests {
    /// The keybag `keybag/four-keys`, moved to a device key that is there, and unlocked.
    final class Bed {
        let keybag: Keybag
        private let scratch = ScratchDirectory()
        private let turn: FileDescriptor

        init() throws {
            // The UUID is the same in every run, and so are the names in the ring: one run at a time.
            turn = try FileDescriptor.open(
                FilePath("/tmp/protectfs-vectors-\(getuid()).lock"), .readWrite, options: [.create, .closeOnExec],
                permissions: .ownerReadWrite)
            guard flock(turn.rawValue, LOCK_EX) == 0 else { throw Errno(rawValue: errno) }
            let vector = try FormatVector.named("keybag/four-keys")
            let deviceKey = scratch.path.appending("device-key")
            try deviceKey.overwrite(vector.bytes("device key"))
            let directory = scratch.path.appending("keybag")
            try FileManager.default.createDirectory(atPath: directory.string, withIntermediateDirectories: false)
            try directory.setMode(0o700)
            var copy = try KeybagCopy(decoding: vector.bytes("bytes"))
            copy.devicePath = Array(deviceKey.string.utf8)
            let slot = try #require(copy.slot(.passcode))
            let kek = try PasscodeKEK(
                passcode: secret(vector.bytes("passcode")), salt: slot.salt, iterations: slot.iterations,
                device: DeviceKey(secret: secret(vector.bytes("device key"))), keybag: copy.uuid)
            let bytes = try copy.encoded(under: kek.unwrap(slot.wrapped))
            try KeybagFile(directory: directory).create(bytes)
            try AttemptFile(directory: directory, keybag: copy.uuid).create()
            try TransitionFile(directory: directory).create()
            keybag = try Keybag(at: directory)
            try keybag.unlock(passcode: secret(vector.bytes("passcode")))
        }

        deinit {
            try? keybag.evictEverything()
            try? turn.close()
        }

        func store(_ bytes: [UInt8]) throws -> FilePath {
            let path = scratch.path.appending("file")
            try path.overwrite(bytes)
            return path
        }

        /// All of a file.
        func read(_ path: FilePath) throws -> [UInt8] {
            let file = try ProtectedFile.open(path, keybag: keybag)
            return try file.bytes(at: 0, count: Int(try file.size()))
        }
    }

    /// What reading comes to, in the words of `expect:`.
    private static func outcome(_ body: () throws -> Void) -> String {
        do {
            try body()
            return "success"
        } catch DataProtectionError.damaged(_, let layer, _, _) {
            return "damaged \(layer.rawValue)"
        } catch DataProtectionError.unsupported {
            return "unsupported"
        } catch DataProtectionError.notProtected {
            return "not protected"
        } catch DataProtectionError.because(FileFailure.mangled) {
            // FORMAT.md §3.7 lets a reader say so instead.
            return "not protected"
        } catch DataProtectionError.because(FileFailure.foreignKeybag) {
            return "foreign keybag"
        } catch DataProtectionError.because(KeybagFailure.keyLost) {
            return "key lost"
        } catch DataProtectionError.because(FileFailure.otherKey) {
            return "damaged wrap"
        } catch {
            return "\(error)"
        }
    }

    private static func expectation(_ vector: FormatVector) -> String {
        vector.expect == "not ours" ? "not protected" : vector.expect
    }

    @Test func filesComeToWhatIsExpected() throws {
        let bed = try Bed()
        // One scenario is about a key that this keybag has.
        let vectors = try FormatVector.all(in: "file").filter { $0.has("class key c 1") }
        #expect(vectors.count == 81)
        for vector in vectors {
            let path = try bed.store(vector.bytes("bytes"))
            let outcome = Self.outcome {
                let text = try bed.read(path)
                guard vector.isSuccess else { return }
                #expect(text == (try vector.bytes("text")), "\(vector)")
                let file = try ProtectedFile.open(path, keybag: bed.keybag)
                #expect(UInt64(try file.protectionClass().rawValue) == (try vector.number("class")), "\(vector)")
                let origin: [OriginMark.Verdict: String] = [
                    .unverified: "unverified", .thisDevice: "this device", .verified: "verified",
                ]
                #expect(origin[try file.origin()] == (try vector.text("origin")), "\(vector)")
            }
            #expect(outcome == Self.expectation(vector), "\(vector)")
            // Reading changes nothing.
            #expect(try path.contents() == vector.bytes("bytes"), "\(vector)")
        }
    }

    /// Files that somebody else made and left in any state can be written on, and are clean afterwards.
    @Test func filesCanBeWrittenOn() throws {
        let bed = try Bed()
        for vector in try FormatVector.all(in: "file") where vector.isSuccess {
            let path = try bed.store(vector.bytes("bytes"))
            // One is unverified only without class key C, which this keybag has.
            if vector.has("class key c 1"), try vector.number("class") == 2, try vector.text("origin") == "unverified" {
                expectError("unverifiedOrigin", "\(vector)") {
                    _ = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
                }
                #expect(try path.contents() == vector.bytes("bytes"), "\(vector)")
                continue
            }
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            try file.write([0x21, 0x3F], at: UInt64(try file.size()))
            try file.close()
            #expect(try bed.read(path) == vector.bytes("text") + [0x21, 0x3F], "\(vector)")
            try StoredFile(path).expectClosed("\(vector)")
        }
    }

    /// A head alone, and room for a second one: what is wrong with it is told from there.
    @Test func brokenHeadsAreRefused() throws {
        let bed = try Bed()
        let vectors = try FormatVector.all(in: "head").filter { !$0.isSuccess }
        #expect(vectors.count == 98)
        for vector in vectors {
            let path = try bed.store(vector.bytes("bytes") + [UInt8](repeating: 0, count: 4096))
            let outcome = Self.outcome { _ = try bed.read(path) }
            #expect(outcome == Self.expectation(vector), "\(vector)")
            let writing = Self.outcome {
                let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
                try file.write([1], at: 0)
                try file.close()
            }
            #expect(writing == Self.expectation(vector), "\(vector)")
            #expect(try path.contents().prefix(4096) == vector.bytes("bytes")[...], "\(vector)")
        }
    }
}
