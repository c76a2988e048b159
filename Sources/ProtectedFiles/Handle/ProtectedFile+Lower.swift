import DurableFiles
import Glibc
import Keybags
import ProtectionKeys

extension ProtectedFile {
    /// A handle for reading a file that was opened by its directory, for example.
    ///
    /// - Throws: what `open(_:_:)` of a path throws.
    package static func reading(_ file: LowerFile, keybag: Keybag) throws(DataProtectionError) -> ProtectedFile {
        try opened(file, keybag: keybag, isWritable: false)
    }

    /// The same for reading and writing; `file` is open for both.
    package static func writing(_ file: LowerFile, keybag: Keybag) throws(DataProtectionError) -> ProtectedFile {
        try opened(file, keybag: keybag, isWritable: true)
    }

    private static func opened(
        _ file: LowerFile, keybag: Keybag, isWritable: Bool
    ) throws(DataProtectionError) -> ProtectedFile {
        let open = OpenFile(file, keybag: keybag, isWritable: isWritable)
        // Opening asks for the key, whatever other handles hold.
        _ = try open.state(.open)
        return ProtectedFile(open)
    }

    /// The same, and reads the first bytes of the file, which are one operation up to a MiB: the keyring is asked once.
    ///
    /// - Returns: the handle, and how many bytes were read, fewer than `buffer.count` only at the end of the file; nil if they cannot be
    ///   read, although the file can be opened: ``read(into:at:)`` then says why.
    /// - Throws: what `open(_:_:)` of a path throws.
    package static func reading(
        _ file: LowerFile, into buffer: UnsafeMutableRawBufferPointer, keybag: Keybag
    ) throws(DataProtectionError) -> (file: ProtectedFile, count: Int?) {
        let open = OpenFile(file, keybag: keybag, isWritable: false)
        // What keeps the file from being opened is thrown below, and what keeps it from being read by the next read.
        guard buffer.count > 0, let count = try? open.read(into: buffer, at: 0, for: .open) else {
            _ = try open.state(.open)
            return (ProtectedFile(open), nil)
        }
        return (ProtectedFile(open), count)
    }

    /// Creates a protected file in an open directory, as `create(_:as:raiseTo:keybag:)` does by a path. Its class is that of the rules for
    /// new files. The file has its head when it gets its name, and both last when this returns.
    ///
    /// - Parameters:
    ///   - least: the weakest class that it may get.
    ///   - mode: permission bits; the umask is not applied.
    /// - Throws: `exists`, `locked`, `system`.
    package static func create(
        _ entry: DirectoryEntry, atLeast least: ProtectionClass?, mode: mode_t, keybag: Keybag
    ) throws(DataProtectionError) -> ProtectedFile {
        let place = entry.directory.descriptorPath.appending(entry.name)
        var resolved = try keybag.classForNewFile(at: place, explicit: nil, replaced: nil)
        if let least { resolved = max(resolved, least) }
        let new = try NewFile(entry, as: resolved, layout: .small, keybag: keybag)
        try new.finish()
        // Behind what is written: the kernel takes set-user-ID bits away then.
        _ = try retrying(entry.path, "fchmod") { fchmod(new.file.descriptor, mode) }
        try new.publish(replacing: false)
        // Programs rename what they have open.
        new.file.isNow(entry.name, in: entry.directory.descriptor)
        return ProtectedFile(try new.handle())
    }
}
