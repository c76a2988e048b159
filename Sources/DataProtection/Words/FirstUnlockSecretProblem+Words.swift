import Keybags

extension FirstUnlockSecretProblem {
    /// - Parameter keybag: quoted.
    func message(_ keybag: String) -> String {
        switch self {
        case .unknown:
            "this first-unlock secret does not open \(keybag): it was removed, the class keys were rotated, or it is for another keybag"
        case .outdated(let name):
            "first-unlock secret \(quoted(name)) does not open all class keys of \(keybag): an older version of protectfs rotated them"
        case .exists(let name): "\(keybag) has a first-unlock secret \(quoted(name)) already"
        case .absent(let name): "\(keybag) has no first-unlock secret \(quoted(name))"
        case .unusableName:
            "the name of a first-unlock secret has 1 to 64 bytes of UTF-8 and no control or formatting characters"
        case .noRoom: "keybag \(keybag) is full: it has no room for one more first-unlock secret"
        }
    }

    /// - Parameter option: `` --keybag DIR``, or nothing.
    func hint(_ option: String) -> String? {
        switch self {
        case .unknown: "make a new one: protectfs service-secret add\(option) NAME"
        case .outdated(let name), .exists(let name):
            "replace it: protectfs service-secret remove\(option) \(quoted(name)), then add it again"
        case .absent: "list them: protectfs service-secret list\(option)"
        case .unusableName: nil
        case .noRoom: "remove one that is not used, or delete old class keys: protectfs rotate --forget\(option)"
        }
    }
}
