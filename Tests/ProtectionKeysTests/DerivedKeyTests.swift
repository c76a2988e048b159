import Testing

@testable import ProtectionKeys

/// FORMAT.md §1.1, the last column: what each derived key is used for, seen from outside.
@Suite struct DerivedKeyTests {
    @Test func row1PasscodeKEKWrapsTheKeybagKey() throws {
        let vector = try Vector.named("derivation/01-passcode-kek")
        let kek = try PasscodeKEK(
            passcode: vector.secret("passcode"), salt: vector.bytes("slot salt"),
            iterations: vector.number("iterations"), device: DeviceKey(secret: vector.secret("salt")),
            keybag: vector.keybag())
        let key = KeybagKey(keybag: try vector.keybag(), secret: try vector.secret("wraps"))
        try vector.check("wrapped") { try kek.wrap(key).bytes }
    }

    @Test func row2RecoveryKEKWrapsTheKeybagKey() throws {
        let vector = try Vector.named("derivation/02-recovery-kek")
        let kek = try RecoveryKEK(
            code: RecoveryCode(reading: vector.secret("recovery code")), salt: vector.bytes("slot salt"),
            iterations: vector.number("iterations"), keybag: vector.keybag())
        let key = KeybagKey(keybag: try vector.keybag(), secret: try vector.secret("wraps"))
        try vector.check("wrapped") { try kek.wrap(key).bytes }
    }

    @Test func row3ClassWrappingKeyWrapsClassKeys() throws {
        let vector = try Vector.named("derivation/03-class-key-wrap")
        let keybagKey = KeybagKey(keybag: try vector.keybag(), secret: try vector.secret("key"))
        let key = try ClassKey(keyName(.complete), vector.bytes("wraps"))
        try vector.check("wrapped") { try keybagKey.wrap(key).bytes }
        let privateKey = try ClassBPrivateKey(keyName(.completeUnlessOpen), vector.bytes("wraps"))
        try vector.check("wrapped") { try keybagKey.wrap(privateKey).bytes }
    }

    @Test func row4KeybagMACKeyTagsTheKeybag() throws {
        let vector = try Vector.named("derivation/04-keybag-mac")
        let keybagKey = KeybagKey(keybag: try vector.keybag(), secret: try vector.secret("key"))
        try vector.check("tag") { try keybagKey.macKey().tag(of: vector.bytes("message")) }
    }

    @Test func row5DeviceWrappingKeyWrapsClassKeyD() throws {
        let vector = try Vector.named("derivation/05-device-class-key-wrap")
        let device = try DeviceKey(secret: vector.secret("key"))
        let name = ClassKeyName(keybag: try vector.keybag(), protectionClass: .none, generation: 1)
        let key = try ClassKey(name, vector.bytes("wraps"))
        try vector.check("wrapped") { try device.wrap(key).bytes }
    }

    @Test func row6DeviceID() throws {
        let vector = try Vector.named("derivation/06-device-id")
        let device = try DeviceKey(secret: vector.secret("key"))
        try vector.check("derived") { try device.id(for: vector.keybag()) }
    }

    @Test func row7GuessTag() throws {
        let vector = try Vector.named("derivation/07-guess-tag")
        let kek = try PasscodeKEK(
            passcode: vector.secret("passcode"), salt: vector.bytes("slot salt"),
            iterations: vector.number("iterations"), device: DeviceKey(secret: vector.secret("salt")),
            keybag: vector.keybag())
        let tag = kek.guessTag
        try vector.check("tag") { [UInt8(truncatingIfNeeded: tag), UInt8(tag >> 8)] }
    }

    @Test func row15OpensAStoredValue() throws {
        let vector = try Vector.named("derivation/15-stored-value")
        let key = try StoreKey(secret: vector.secret("key"))
        try vector.check("value") { try key.open(vector.bytes("sealed"), at: vector.bytes("context")) }
        #expect(try vector.bytes("sealed").starts(with: vector.bytes("salt")))
    }

    @Test func row16MarksASecret() throws {
        let vector = try Vector.named("derivation/16-stored-mark")
        let key = try StoreKey(secret: vector.secret("key"))
        try vector.check("tag") { try key.mark(of: vector.secret("message")) }
    }

    /// Rows 17 and 18: what wraps the key of a secret, and what it takes to unwrap it.
    @Test func secretWraps() throws {
        let device = try DeviceKey(secret: Vector.named("derivation/18-device-secret-wrap").secret("salt"))
        let vectors = try ["17-secret-wrap", "18-device-secret-wrap"].map { try Vector.named("derivation/\($0)") }
        let name = ClassKeyName(
            keybag: try vectors[0].keybag(), kind: .secrets, protectionClass: .completeUntilFirstUserAuthentication,
            generation: 7)
        let key = try ClassKey(name: name, secret: try vectors[0].secret("key"))
        let item = ItemKey(secret: try vectors[0].secret("wraps"))
        try vectors[0].check("wrapped") { try key.wrap(item).bytes }
        try vectors[1].check("wrapped") { try key.wrap(item, with: device).bytes }
        let sealed = try ItemKey(secret: try vectors[0].secret("wraps")).seal(SecretBytes(zeroed: 3), boundTo: [1, 2])
        let wrapped = try vectors.map { WrappedKey(bytes: try $0.bytes("wrapped")) }
        #expect(try key.unwrapItem(wrapped[0]).open(sealed, boundTo: [1, 2]).count == 3)
        #expect(try key.unwrapItem(wrapped[1], with: device).open(sealed, boundTo: [1, 2]).count == 3)
        #expect(throws: KeyError.authenticationFailed) { _ = try item.open(sealed, boundTo: [1]) }
        #expect(throws: KeyError.unwrapFailed) { _ = try key.unwrapItem(wrapped[1]) }
        #expect(throws: KeyError.unwrapFailed) { _ = try key.unwrapItem(wrapped[0], with: device) }
        let ofFiles = ClassKeyName(keybag: name.keybag, protectionClass: name.protectionClass, generation: 7)
        let other = try ClassKey(name: ofFiles, secret: try vectors[0].secret("key"))
        #expect(throws: KeyError.unwrapFailed) { _ = try other.unwrapItem(wrapped[0]) }
    }

    @Test func row19BackupKEKWrapsTheBackupKey() throws {
        let vector = try Vector.named("derivation/19-backup-kek")
        let kek = try BackupKEK(
            passphrase: vector.secret("passphrase"), salt: vector.bytes("slot salt"),
            iterations: vector.number("iterations"), keybag: vector.keybag())
        let key = BackupKey(keybag: try vector.keybag(), secret: try vector.secret("wraps"))
        try vector.check("wrapped") { try kek.wrap(key).bytes }
        let wrapped = WrappedKey(bytes: try vector.bytes("wrapped"))
        let opened = try kek.unwrap(wrapped)
        #expect(try kek.wrap(opened) == wrapped)
    }

    @Test func row20BackupWrappingKeyWrapsClassKeys() throws {
        let vector = try Vector.named("derivation/20-backup-class-key-wrap")
        let backupKey = BackupKey(keybag: try vector.keybag(), secret: try vector.secret("key"))
        let key = try ClassKey(keyName(.complete), vector.bytes("wraps"))
        try vector.check("wrapped") { try backupKey.wrap(key).bytes }
        let privateKey = try ClassBPrivateKey(keyName(.completeUnlessOpen), vector.bytes("wraps"))
        try vector.check("wrapped") { try backupKey.wrap(privateKey).bytes }
    }

    @Test func row21BackupMACKeyTagsTheBackupKeybag() throws {
        let vector = try Vector.named("derivation/21-backup-mac")
        let backupKey = BackupKey(keybag: try vector.keybag(), secret: try vector.secret("key"))
        try vector.check("tag") { try backupKey.macKey().tag(of: vector.bytes("message")) }
    }

    @Test func row22UploadMACKey() throws {
        let vector = try Vector.named("derivation/22-upload-mac")
        let key = try ClassKey(vector.classKeyName(), vector.bytes("key"))
        try vector.check("tag") { try key.uploadMACKey().tag(of: vector.bytes("message")) }
    }

    @Test func row8ClassKeyID() throws {
        let vector = try Vector.named("derivation/08-class-key-id-a")
        let key = try ClassKey(vector.classKeyName(), vector.bytes("key"))
        try vector.check("derived") { try key.id() }
    }

    @Test func row8ClassKeyIDOfB() throws {
        let vector = try Vector.named("derivation/08-class-key-id-b")
        let key = try ClassBPrivateKey(vector.classKeyName(), vector.bytes("key"))
        try vector.check("derived") { try key.id() }
    }

    @Test func row9FileKeyWrappingKeyWrapsFileKeys() throws {
        let vector = try Vector.named("derivation/09-file-key-wrap")
        let key = try ClassKey(vector.classKeyName(), vector.bytes("key"))
        let fileKey = FileKey(try vector.bytes("wraps"))
        try vector.check("wrapped") { try key.wrap(fileKey).bytes }
    }

    @Test func row10BPublicMACKey() throws {
        let underC = try Vector.named("derivation/10-b-public-mac-under-c")
        let key = try ClassKey(underC.classKeyName(), underC.bytes("key"))
        try underC.check("tag") { try key.bPublicMACKey().tag(of: underC.bytes("message")) }

        let underDevice = try Vector.named("derivation/10-b-public-mac-under-device-key")
        let device = try DeviceKey(secret: underDevice.secret("key"))
        try underDevice.check("tag") {
            try device.bPublicMACKey(for: underDevice.keybag()).tag(of: underDevice.bytes("message"))
        }
    }

    @Test func row11OriginMACKey() throws {
        let underC = try Vector.named("derivation/11-origin-mac-under-c")
        let key = try ClassKey(underC.classKeyName(), underC.bytes("key"))
        try underC.check("tag") { try key.originMACKey().tag(of: underC.bytes("message")) }

        let underDevice = try Vector.named("derivation/11-origin-mac-under-device-key")
        let device = try DeviceKey(secret: underDevice.secret("key"))
        try underDevice.check("tag") {
            try device.originMACKey(for: underDevice.keybag()).tag(of: underDevice.bytes("message"))
        }
    }

    @Test func row12ChunkKey() throws {
        let vector = try Vector.named("derivation/12-chunk-key")
        let fileKey = FileKey(try vector.bytes("key"))
        try vector.check("derived") { try fileKey.chunkKey(of: FileID(bytes: vector.bytes("file id"))).readable() }
    }

    @Test func row13HeadKey() throws {
        let vector = try Vector.named("derivation/13-head-key")
        let fileKey = FileKey(try vector.bytes("key"))
        try vector.check("derived") { try fileKey.headKey(of: FileID(bytes: vector.bytes("file id"))).readable() }
    }

    @Test func row14KeyCommitment() throws {
        let vector = try Vector.named("derivation/14-key-commitment")
        let fileKey = FileKey(try vector.bytes("key"))
        try vector.check("derived") { try fileKey.commitment(of: FileID(bytes: vector.bytes("file id"))) }
    }
}
