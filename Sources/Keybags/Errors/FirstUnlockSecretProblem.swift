/// Why a first-unlock secret cannot be used, made or removed.
public enum FirstUnlockSecretProblem: Error, Hashable, Sendable {
    /// The keybag does not know it: it was removed, the class keys were rotated, or it is another keybag's.
    case unknown
    /// The class keys were rotated by a version that knows no such secrets, so this one does not open all of them.
    case outdated(name: String)
    /// There is one of that name already.
    case exists(name: String)
    /// There is none of that name.
    case absent(name: String)
    /// A name has 1 to 64 bytes of UTF-8, and no control or formatting characters.
    case unusableName
    /// The keybag has no room for one more.
    case noRoom
}
