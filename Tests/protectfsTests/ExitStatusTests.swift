import DataProtection
import Testing

@testable import protectfs

/// swift-testing has an `ExitStatus` too.
private typealias OurStatus = protectfs.ExitStatus

@Suite("Exit status")
struct ExitStatusTests {
    @Test("Of several, the first of 74, 65, 77, 75, 66 that occurred")
    func precedence() {
        let order: [OurStatus] = [.inputOutput, .damaged, .refused, .notNow, .notFound]
        for (index, first) in order.enumerated() {
            for second in order[index...] {
                #expect(first.joined(second) == first)
                #expect(second.joined(first) == first)
            }
            #expect(OurStatus.done.joined(first) == first)
            #expect(first.joined(.done) == first)
            #expect(first.joined(OurStatus.unavailable) == first)
        }
        #expect(
            OurStatus.unavailable.joined(OurStatus.exists) == OurStatus.unavailable,
            "of the rest, the one that came first")
    }

    private static let one = try! KeybagUUID(bytes: [UInt8](repeating: 1, count: 16))
    private static let two = try! KeybagUUID(bytes: [UInt8](repeating: 2, count: 16))

    static let ofAllLayers: [(DataProtectionError, Int32)] = [
        (.notProtected("f"), 65), (.damaged("f", .chunk, reason: "r", offset: 5), 65),
        (.unsupported("f", what: "w"), 65), (.busy("f"), 75), (.notRegularFile("f"), 77),
        (.hasHardLinks("f", count: 2), 77), (.exists("f"), 73), (.keybagUnsafe("d", reason: "r"), 77),
        (.usedElsewhere("s/machine"), 78),
        (.system("f", operation: "open", .noSuchFileOrDirectory), 66),
        (.system("f", operation: "open", .permissionDenied), 77), (.system("f", operation: "pwrite", .noSpace), 74),
        (.system("f", operation: "pread", .ioError), 74), (.system("f", operation: "open", .tooManyOpenFiles), 71),
        (.cryptography(.unwrapFailed), 70),
    ]

    static let ofKeybags: [(KeybagFailure, Int32)] = [
        (.locked(path: "f", .complete, .read, state: .locked, since: nil), 75),
        (.keyLost("f", .complete, generation: 1), 66), (.keyLost("f", .none, generation: 2, isNewer: true), 66),
        (.keybagNotFound("d"), 66), (.keybagExists("d"), 73), (.keybagDamaged("d", reason: "r"), 65),
        (.wrongPasscode(keybag: "d", failures: 5, retryAfter: .seconds(60)), 77),
        (.throttled(keybag: "d", retryAfter: .seconds(60)), 75), (.attemptsNotRecorded("f", .readOnlyFileSystem), 74),
        (.passcodeUnusable(reason: "r"), 64), (.keybagUnconfirmed("d", .ioError), 74),
        (.keybagIntact("d", one, exported: one), 73), (.keybagIntact("d", one, exported: two), 73),
        (.wrongRecoveryCode(keybag: "d"), 77), (.noRecoveryCode("d"), 66),
        (.otherDevice(keybag: "d", deviceKey: "k"), 66), (.deviceKeyUnusable("k", reason: "r"), 66),
        (.lockedMeanwhile(keybag: "d"), 75), (.keyringUnavailable(.noFunction), 69),
        (.lockIncomplete(keybag: "u", .permissionDenied), 75), (.configuration("c", line: 1, reason: "r"), 78),
        (.lockUnproven(keybag: "d", .held(processes: [])), 75),
        (.lockUnproven(keybag: "d", .held(processes: [1, 2])), 75),
        (.lockUnproven(keybag: "d", .unwritable(.noSpace)), 75),
        (.lockUnproven(keybag: "d", .unwritable(.ioError)), 75), (.keysElsewhere(keybag: "d", namespaces: [1]), 75),
        (.mountUnanswered("d", .connectionRefused), 75),
        (.tooManyNamespaces(keybag: "d", namespaces: [1, 2]), 75), (.keysUnreadable(keybag: "d"), 75),
        (.keysIncomplete(keybag: "d"), 75), (.outOfReachOfLocks(keybag: "d"), 75), (.tooManyGenerations("d"), 77),
        (.weakDerivation("d", iterations: 1), 77),
    ]

    static let ofFiles: [(FileFailure, Int32)] = [
        (.mangled("f", .overwritten), 65), (.mangled("f", .beginningMissing(bytes: 1)), 65),
        (.mangled("f", .converted), 65), (.database("f", of: "f"), 77), (.database("f-wal", of: "f"), 77),
        (.databaseInUse("f", holding: "f-wal"), 75), (.unverifiedOrigin("f", .unverified), 65),
        (.foreignKeybag("f", one), 66), (.otherKey("f", .complete, generation: 2), 65), (.needsRekey("f"), 77),
        (.handleFailed("f", .ioError), 74), (.notOpen("f", for: .read), 70), (.outOfRange("f"), 74),
        (.tooSparse("f", stored: 4096, needed: 1 << 40), 74), (.wouldWeaken("f", from: .complete, to: .none), 77),
        (.unknownClass("f", name: "n"), 64), (.ownedByAnother("f", uid: 1), 77), (.ownData("f"), 77),
    ]

    static let ofTrees: [(TreeFailure, Int32)] = [
        (.notASegment("f.segment-1", of: "f"), 65), (.rulesWithin("d", rules: "d/r"), 78), (.setAside("t"), 75),
        (.backupNotFound("b"), 66), (.wrongBackupPassphrase("b"), 77),
        (.keyNotInBackup("f", .complete, generation: 2, backup: "b"), 75), (.notForBackup("b"), 64),
        (.noRoomForEarlierCopy("f", "b/files/f", earlier: "b/earlier/f"), 75),
    ]

    static let errors: [(DataProtectionError, Int32)] =
        ofAllLayers + because(ofKeybags) + because(ofFiles) + because(ofTrees)

    private static func because<Failure: LayerFailure>(
        _ failures: [(Failure, Int32)]
    ) -> [(DataProtectionError, Int32)] {
        failures.map { (DataProtectionError.because($0), $1) }
    }

    @Test("Every error has a status, and a message that fits the house", arguments: errors)
    func error(error: DataProtectionError, status: Int32) {
        #expect(error.exitStatus.rawValue == status)
        for text in [error.message, error.hint].compactMap({ $0 }) {
            #expect(text.first?.isUppercase == false)
            #expect(!text.hasSuffix("."))
            #expect(!text.contains("\n"))
        }
        #expect(error.message != "\(error)" && !error.message.contains("because("), "the façade has no words for it")
    }

    @Test("A failure of a layer that is not known here is a bug, and named")
    func unknownLayer() {
        let error = DataProtectionError.because(UnknownFailure.new)
        #expect(error.exitStatus == .bug && error.message == "new" && error.hint == nil)
        #expect(error.errno == .invalidArgument)
    }
}

/// Of a layer that nobody here knows.
private enum UnknownFailure: LayerFailure {
    case new
    var errno: Errno { .invalidArgument }
}
