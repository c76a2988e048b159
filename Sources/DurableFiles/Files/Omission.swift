#if PROTECTFS_CONTROLS
    import Glibc

    /// Controls of the power-cut tests: in a build with `-DPROTECTFS_CONTROLS`, which nobody ships, `PROTECTFS_OMIT` names what is left
    /// out, and the tests must find it.
    package enum Omission: String {
        /// Redo records: chunks are overwritten in place, as others do it.
        case redo
        /// Flushes of files that are there already.
        case fdatasync
        /// Flushes of new files.
        case fsync
        /// Flushes of directories. (Of a keybag's two copies the second one's flush makes the first one's name last: that none of these
        /// is missing there is not seen.)
        case directory

        package static let current = getenv("PROTECTFS_OMIT").flatMap { Omission(rawValue: String(cString: $0)) }
    }
#endif
