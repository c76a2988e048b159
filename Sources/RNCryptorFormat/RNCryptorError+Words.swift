public import FoundationEssentials

extension RNCryptorError: LocalizedError {
    /// What is wrong: lower case, no full stop.
    public var errorDescription: String? { words(of: "the message") }

    /// As ``errorDescription``.
    ///
    /// - Parameter name: the message's, quoted.
    package func words(of name: String) -> String {
        switch self {
        case .notRNCryptor: "\(name) is not an RNCryptor file"
        case .unsupportedVersion(let version):
            "\(name) is an RNCryptor file of version \(version); versions 2 and 3 are read"
        case .truncated(let length): "\(name) is cut short: \(length) bytes, which no whole RNCryptor file has"
        case .wrongPasswordOrAltered:
            "wrong password or keys for \(name), or the file was altered; the two cannot be told apart"
        case .changedSinceVerified: "\(name) was changed while it was read"
        case .malformed: "\(name) does not follow the format: its HMAC is right, and its padding is not"
        case .needsPassword: "\(name) was sealed with a password, not with keys"
        case .needsKeys: "\(name) was sealed with keys, not with a password"
        case .emptyPassword: "an empty password cannot be used"
        case .passwordTooLong(let limit): "a password of more than \(limit) bytes cannot be used"
        case .wrongKeyLength(let length): "two keys have 64 bytes together, not \(length)"
        case .wrongLength, .unusable, .cryptography: "unexpected: \(self); please report this"
        }
    }
}
