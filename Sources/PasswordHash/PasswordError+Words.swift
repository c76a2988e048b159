public import FoundationEssentials

extension PasswordError: LocalizedError {
    /// What is wrong: lower case, no full stop.
    public var errorDescription: String? { words }

    /// As ``errorDescription``.
    package var words: String {
        switch self {
        case .unusablePassword(.empty): "an empty password cannot be used"
        case .unusablePassword(.tooLong(_, let limit)): "a password of more than \(limit) bytes cannot be used"
        case .unusablePassword(.hasZeroByte): "a password with a zero byte cannot be used"
        case .unusableSalt(let part, let fault): "\(part.spoken) \(fault.spoken)"
        case .iterationsOutOfRange(let count, let allowed):
            "\(count) iterations cannot be used: allowed are \(allowed.lowerBound) to \(allowed.upperBound)"
        case .wrongKeyLength(let expected, let actual): "a client key must have \(expected) bytes, not \(actual)"
        case .malformed(let field, let reason):
            "this is not a hash of protectfs password hash: \(field.rawValue): \(reason)"
        case .cryptography(let error): "libcrypto failed on \(error); please report this"
        }
    }
}

extension PasswordError.SaltPart {
    fileprivate var spoken: String {
        switch self {
        case .site: "the name of the site"
        case .userID: "the ID of the user"
        }
    }
}

extension PasswordError.SaltFault {
    package var spoken: String {
        switch self {
        case .empty: "is empty"
        case .tooLong(_, let limit): "has more than \(limit) bytes"
        case .hasColon: "has a colon"
        }
    }
}
