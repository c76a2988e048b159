import DataProtection
import RNCryptorFormat

extension RNCryptorError {
    /// The message and the exit status.
    ///
    /// A wrong password has the status of a wrong passcode, 77, although the file may have been altered. The password is wrong in
    /// almost all cases, and 65 would send users to look for a damaged disk.
    /// - Parameter name: the message's, quoted.
    func failure(_ name: String) -> Failure {
        switch self {
        case .notRNCryptor: Failure(.damaged, "\(name) is not an RNCryptor file")
        case .unsupportedVersion(let version):
            Failure(.damaged, "\(name) is an RNCryptor file of version \(version); versions 2 and 3 are read")
        case .truncated(let length):
            Failure(.damaged, "\(name) is cut short: \(length) bytes, which no whole RNCryptor file has")
        case .wrongPasswordOrAltered:
            Failure(
                .refused, "wrong password or keys for \(name), or the file was altered; the two cannot be told apart")
        case .changedSinceVerified:
            Failure(
                .notNow, "\(name) was changed while it was read", hint: "try again when the other program has finished")
        case .malformed:
            Failure(.damaged, "\(name) does not follow the format: its HMAC is right, and its padding is not")
        case .needsPassword:
            Failure(.usage, "\(name) was sealed with a password, not with keys", hint: "leave out --key-fd")
        case .needsKeys:
            Failure(
                .usage, "\(name) was sealed with keys, not with a password",
                hint: "give both, 64 bytes, through a file descriptor: \(SecretDescriptor.example("--key-fd"))")
        case .emptyPassword: Failure(.usage, "an empty password cannot be used")
        case .passwordTooLong(let limit): Failure(.usage, "a password of more than \(limit) bytes cannot be used")
        case .wrongKeyLength(let length): Failure(.usage, "two keys have 64 bytes together, not \(length)")
        default: Failure(.bug, "unexpected: \(self); please report this")
        }
    }
}

/// Runs `body`; what RNCryptor's format refuses is said of the message `name`.
func saying<R: ~Copyable>(
    of name: String, _ body: () throws(RNCryptorError) -> R
) throws(Failure) -> R {
    do throws(RNCryptorError) { return try body() } catch { throw error.failure(name) }
}
