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
        if case .unusableSalt(let part, let fault) = self { return "\(part.option) \(fault.spoken)" }
        return words
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
