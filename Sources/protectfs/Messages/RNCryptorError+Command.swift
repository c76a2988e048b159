import DataProtection
import RNCryptorFormat

extension RNCryptorError {
    /// The message and the exit status.
    ///
    /// A wrong password has the status of a wrong passcode, 77, although the file may have been altered. The password is wrong in
    /// almost all cases, and 65 would send users to look for a damaged disk.
    /// - Parameter name: the message's, quoted.
    func failure(_ name: String) -> Failure { Failure(exitStatus, words(of: name), hint: hint) }

    private var exitStatus: ExitStatus {
        switch self {
        case .notRNCryptor, .unsupportedVersion, .truncated, .malformed: .damaged
        case .wrongPasswordOrAltered: .refused
        case .changedSinceVerified: .notNow
        case .needsPassword, .needsKeys, .emptyPassword, .passwordTooLong, .wrongKeyLength: .usage
        case .wrongLength, .unusable, .cryptography: .bug
        }
    }

    private var hint: String? {
        switch self {
        case .changedSinceVerified: "try again when the other program has finished"
        case .needsPassword: "leave out --key-fd"
        case .needsKeys: "give both, 64 bytes, through a file descriptor: \(SecretDescriptor.example("--key-fd"))"
        default: nil
        }
    }
}

/// Runs `body`; what RNCryptor's format refuses is said of the message `name`.
func saying<R: ~Copyable>(
    of name: String, _ body: () throws(RNCryptorError) -> R
) throws(Failure) -> R {
    do throws(RNCryptorError) { return try body() } catch { throw error.failure(name) }
}
