import DataProtection

extension MountTable {
    /// What is mounted now, or why that cannot be known.
    static func reading() -> Reading<MountTable> {
        do throws(DataProtectionError) { return .known(try seen()) } catch {
            return .unknown("/proc/self/mountinfo cannot be read: \(error.errno.spoken)")
        }
    }
}
