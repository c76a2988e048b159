import Glibc

/// Groups that many distributions make for one user each: what such a group may do, nobody else may.
package enum PrivateGroup {
    /// Whether a group has no other members, as far as the group itself says: root's, or the user's own, which has the same name.
    package static func isPrivate(_ group: gid_t, of user: uid_t) -> Bool {
        guard group != 0 else { return members(of: 0)?.names.allSatisfy { $0 == "root" } ?? true }
        guard let owner = account(of: user), owner.group == group, let found = members(of: group) else { return false }
        return found.group == owner.name && found.names.allSatisfy { $0 == owner.name }
    }

    private static func account(of user: uid_t) -> (name: String, group: gid_t)? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 65_536) { buffer in
            var (entry, found) = (passwd(), UnsafeMutablePointer<passwd>?.none)
            guard getpwuid_r(user, &entry, buffer.baseAddress!, buffer.count, &found) == 0, found != nil else {
                return nil
            }
            return (String(cString: entry.pw_name), entry.pw_gid)
        }
    }

    /// The names in the entry of a group: its own, and those of its members, which do not include users whose first group it is.
    private static func members(of number: gid_t) -> (group: String, names: [String])? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 65_536) { buffer in
            var (entry, found) = (group(), UnsafeMutablePointer<group>?.none)
            guard getgrgid_r(number, &entry, buffer.baseAddress!, buffer.count, &found) == 0, found != nil else {
                return nil
            }
            var names: [String] = []
            var member = entry.gr_mem
            while let name = member?.pointee {
                names.append(String(cString: name))
                member = member?.advanced(by: 1)
            }
            return (String(cString: entry.gr_name), names)
        }
    }
}
