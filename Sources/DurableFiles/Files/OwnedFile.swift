import Glibc
import SystemPackage

extension LowerFile {
    /// O_PATH of fcntl.h, which hides it behind _GNU_SOURCE.
    package static let pathOnly: Int32 = 0o10_000_000

    /// Opens a regular file to change its heads, also where its mode lets nobody write.
    ///
    /// A class is no content: `chmod a-w` keeps a file from being changed, not from being protected.
    /// - Parameter flags: of open(2), besides O_RDWR.
    /// - Throws: `notRegularFile`, `system`.
    package static func forHeads(of path: FilePath, flags: Int32 = 0) throws(DataProtectionError) -> LowerFile {
        try asOwner(path, flags: flags)
    }

    /// Opens a regular file for reading and writing, also where its mode lets nobody do that: as for chmod(2), owning it is enough.
    ///
    /// The mode is widened for the moment of open(2); a kill in that moment leaves its owner what the owner can have anyway.
    /// - Parameter flags: of open(2), besides O_RDWR.
    /// - Throws: `notRegularFile`, `system`.
    package static func asOwner(_ path: FilePath, flags: Int32 = 0) throws(DataProtectionError) -> LowerFile {
        do throws(DataProtectionError) { return try LowerFile(regular: path, flags: O_RDWR | flags) } catch {
            guard error.errno == .permissionDenied,
                let named = try? LowerFile(path, flags: pathOnly | flags),
                let status = try? named.status(), status.st_mode & S_IFMT == S_IFREG
            else { throw error }
            return try named.openedByOwner(insteadOf: error)
        }
    }

    /// The same file once more, to change its heads, where its mode lets nobody write too.
    ///
    /// - Parameter open: opens it for reading and writing where that is allowed.
    package func forHeads(
        _ open: () throws(DataProtectionError) -> LowerFile
    ) throws(DataProtectionError) -> LowerFile {
        do throws(DataProtectionError) { return try open() } catch {
            guard error.errno == .permissionDenied else { throw error }
            return try openedByOwner(insteadOf: error)
        }
    }

    /// - Parameter refusal: what open(2) said, which stands for everybody else.
    private func openedByOwner(insteadOf refusal: DataProtectionError) throws(DataProtectionError) -> LowerFile {
        guard let status = try? status(), status.st_uid == geteuid() else { throw refusal }
        do throws(DataProtectionError) { return try openedByOwner() } catch {
            // Without /proc there is no way to it, which must not look as if there were no file.
            throw error.errno == .noSuchFileOrDirectory ? refusal : error
        }
    }

    /// The same file for reading and writing. This one may have been opened with O_PATH: it is that file, whatever its name is
    /// by now.
    private func openedByOwner() throws(DataProtectionError) -> LowerFile {
        func open() throws(DataProtectionError) -> LowerFile {
            LowerFile(
                path: path,
                descriptor: try retrying(path, "open") {
                    descriptorPath.withPlatformString { Glibc.open($0, O_RDWR | O_CLOEXEC | O_NONBLOCK) }
                })
        }
        func changeMode(_ mode: mode_t) throws(DataProtectionError) {
            _ = try retrying(path, "chmod") { descriptorPath.withPlatformString { chmod($0, mode) } }
        }
        while true {
            let mode = try status().st_mode & 0o7777
            if mode & 0o600 == 0o600 {
                // Somebody else is in the middle of this, and takes it back when we come too late.
                do throws(DataProtectionError) { return try open() } catch {
                    guard error.errno == .permissionDenied, try status().st_mode & 0o600 != 0o600 else { throw error }
                    continue
                }
            }
            // Its owner may be in no position to give these bits back.
            guard mode & (S_ISUID | S_ISGID) == 0 else { return try open() }
            try changeMode(mode | 0o600)
            let opened: Result<LowerFile, DataProtectionError>
            do throws(DataProtectionError) { opened = .success(try open()) } catch { opened = .failure(error) }
            try changeMode(mode)
            return try opened.get()
        }
    }
}
