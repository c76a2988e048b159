package import ProtectionKeys

extension RecoveryCodeTypo {
    /// What is wrong: lower case, no full stop.
    package var message: String {
        switch self {
        case .length(let count):
            // A longer line was cut.
            "a typo: a recovery code has 32 characters, and this one \(count > 256 ? "more than 256" : "\(count)")"
        case .character(let group): "a typo in group \(group): no recovery code has such a character"
        case .checksum(let group?): "a typo, most likely in group \(group)"
        case .checksum(nil): "a typo: more than one character is wrong, or two have changed places"
        }
    }
}
