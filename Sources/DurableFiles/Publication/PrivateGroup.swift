import Glibc
import SystemPackage

/// Groups that many distributions make for one user each: what such a group may do, nobody else may.
package enum PrivateGroup {
    /// Whether a group has no other members: root's, or the user's own, which has the same name.
    package static func isPrivate(_ group: gid_t, of user: uid_t) -> Bool {
        if group == 0 { return true }
        guard let owner = name(ofUser: user) else { return false }
        var buffer = [CChar](repeating: 0, count: 65_536)
        var (entry, found) = (CGroup(), UnsafeMutablePointer<CGroup>?.none)
        guard getgrgid_r(group, &entry, &buffer, buffer.count, &found) == 0, found != nil,
            String(cString: entry.gr_name) == owner
        else { return false }
        var member = entry.gr_mem
        while let name = member?.pointee {
            if String(cString: name) != owner { return false }
            member = member?.advanced(by: 1)
        }
        return true
    }

    private typealias CGroup = group

    private static func name(ofUser user: uid_t) -> String? {
        var buffer = [CChar](repeating: 0, count: 65_536)
        var (entry, found) = (passwd(), UnsafeMutablePointer<passwd>?.none)
        guard getpwuid_r(user, &entry, &buffer, buffer.count, &found) == 0, found != nil else { return nil }
        return String(cString: entry.pw_name)
    }
}
