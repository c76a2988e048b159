public import ProtectionKeys

/// What a program says of the class of its new files: ``Keybag/defaultProtection``.
///
/// It is not an optional class, because `.none` would mean *no default* then, and not the class of that name.
public enum DefaultProtection: Hashable, Sendable {
    /// Nothing: the user's configuration decides, else it is `completeUntilFirstUserAuthentication`.
    case unspecified
    /// New files get this class.
    case of(ProtectionClass)

    /// Nil if the program says nothing.
    package var protectionClass: ProtectionClass? {
        if case .of(let protectionClass) = self { protectionClass } else { nil }
    }
}
