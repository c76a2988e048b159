import CommandLanguage
import PasswordHash

extension PasswordError: SpokenError {
    /// The exit status that says the same.
    package var exitStatus: ExitStatus {
        switch self {
        case .unusablePassword, .unusableSalt, .iterationsOutOfRange: .usage
        case .wrongKeyLength, .malformed: .damaged
        case .cryptography: .bug
        }
    }

    /// What is wrong: lower case, no full stop.
    package var message: String {
        switch self {
        case .unusablePassword(.empty): "an empty password cannot be used"
        case .unusablePassword(.tooLong(_, let limit)): "a password of more than \(limit) bytes cannot be used"
        case .unusablePassword(.hasZeroByte): "a password with a zero byte cannot be used"
        case .unusableSalt(let part, let fault): "\(part.option) \(fault.spoken)"
        case .iterationsOutOfRange(let count, let allowed):
            "\(count) iterations cannot be used: allowed are \(allowed.lowerBound) to \(allowed.upperBound)"
        case .wrongKeyLength(let expected, let actual): "a client key must have \(expected) bytes, not \(actual)"
        case .malformed(let field, let reason):
            "this is not a hash of protectfs password hash: \(field.rawValue): \(reason)"
        case .cryptography(let error): "libcrypto failed on \(error); please report this"
        }
    }

    /// What to type next, if anything helps.
    package var hint: String? {
        switch self {
        case .malformed(.scheme, _): "put the argument in single quotes, or the shell replaces parts of it"
        case .unusableSalt(.site, .hasColon): "give the host name without its port: --site example.org"
        default: nil
        }
    }
}

extension PasswordError.SaltPart {
    fileprivate var option: String {
        switch self {
        case .site: "--site"
        case .userID: "--user"
        }
    }
}

extension PasswordError.SaltFault {
    fileprivate var spoken: String {
        switch self {
        case .empty: "is empty"
        case .tooLong(_, let limit): "has more than \(limit) bytes"
        case .hasColon: "has a colon"
        }
    }
}
