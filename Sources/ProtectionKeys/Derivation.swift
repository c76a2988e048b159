/// The derivations of FORMAT.md §1.1: one label, one use.
enum Label: String {
    case passcodeKEK = "passcode kek"
    case recoveryKEK = "recovery kek"
    case classKeyWrap = "class key wrap"
    case keybagMAC = "keybag mac"
    case deviceClassKeyWrap = "device class key wrap"
    case deviceID = "device id"
    case guessTag = "guess tag"
    case classKeyID = "class key id"
    case fileKeyWrap = "file key wrap"
    case bPublicMAC = "b public mac"
    case originMAC = "origin mac"
    case chunkKey = "chunk key"
    case headKey = "head key"
    case keyCommitment = "key commitment"
    case storedValue = "stored value"
    case storedMark = "stored mark"
    case secretWrap = "secret wrap"
    case deviceSecretWrap = "device secret wrap"
    case backupKEK = "backup kek"
    case backupClassKeyWrap = "backup class key wrap"
    case backupMAC = "backup mac"
    case uploadMAC = "upload mac"
    case latePages = "late pages"
    case firstUnlockID = "first unlock id"
    case firstUnlockKEK = "first unlock kek"
    case firstUnlockMAC = "first unlock mac"
    case hardwareAuth = "hardware auth"
    case hardwarePasscode = "hardware passcode"
    case hardwareGuess = "hardware guess"

    /// `"protectfs/1 "` ‖ label ‖ 00 ‖ context.
    func info(_ context: [UInt8]) -> [UInt8] { Array("protectfs/1 \(rawValue)".utf8) + [0] + context }
}

extension SecretBytes {
    /// HKDF-SHA256 (RFC 5869) of these bytes under `label` and `context`: 32 secret bytes.
    borrowing func derive(_ label: Label, _ context: [UInt8]) throws(KeyError) -> SecretBytes {
        try withUnsafeBytes { key throws(KeyError) in
            try SecretBytes(byteCount: 32) { output throws(KeyError) in
                try LibCrypto.hkdf(key: key, salt: nil, info: label.info(context), into: output)
            }
        }
    }

    /// The same with a secret salt.
    borrowing func derive(
        _ label: Label, _ context: [UInt8], salt: borrowing SecretBytes
    ) throws(KeyError) -> SecretBytes {
        try withUnsafeBytes { key throws(KeyError) in
            try salt.withUnsafeBytes { salt throws(KeyError) in
                try SecretBytes(byteCount: 32) { output throws(KeyError) in
                    try LibCrypto.hkdf(key: key, salt: salt, info: label.info(context), into: output)
                }
            }
        }
    }

    /// The same with a salt that is stored beside what the key is for.
    borrowing func derive(
        _ label: Label, _ context: [UInt8], publicSalt: [UInt8]
    ) throws(KeyError) -> SecretBytes {
        try withUnsafeBytes { key throws(KeyError) in
            try SecretBytes(byteCount: 32) { output throws(KeyError) in
                try publicSalt.lendBytes { salt throws(KeyError) in
                    try LibCrypto.hkdf(key: key, salt: salt, info: label.info(context), into: output)
                }
            }
        }
    }

    /// The same for a value that is not secret: an id or a commitment of `byteCount` bytes.
    borrowing func derivePublic(
        _ label: Label, _ context: [UInt8], byteCount: Int
    ) throws(KeyError) -> [UInt8] {
        try withUnsafeBytes { key throws(KeyError) in
            var output = [UInt8](repeating: 0, count: byteCount)
            try output.lendMutableBytes { output throws(KeyError) in
                try LibCrypto.hkdf(key: key, salt: nil, info: label.info(context), into: output)
            }
            return output
        }
    }
}
