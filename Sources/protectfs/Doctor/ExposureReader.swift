import DataProtection
import Glibc

/// What others may do to files that only their owner should touch, and to the directories that lead there.
enum ExposureReader {
    /// - Parameter paths: files, and directories with what is right in them.
    static func exposures(of paths: [FilePath]) -> [DoctorFacts.Exposure] {
        var found: [DoctorFacts.Exposure] = []
        var parents: [FilePath] = []
        for path in paths.compactMap(\.canonical) {
            var inside: [FilePath] = []
            do throws(DataProtectionError) {
                inside = try TreeWalk.contents(of: path)
            } catch .system(_, _, .notDirectory) {
            } catch {
                found.append(.init(path: path, kind: .unreadable(error.message), isDirectory: true))
            }
            for item in [path] + inside { found += exposure(ofOwn: item) }
            var parent = path.removingLastComponent()
            while !parent.isEmpty, !parents.contains(parent) {
                parents.append(parent)
                parent = parent.removingLastComponent()
            }
        }
        return found + parents.flatMap { exposure(ofParent: $0) }
    }

    private static func exposure(ofOwn path: FilePath) -> [DoctorFacts.Exposure] {
        look(at: path) { status in
            let mode = status.st_mode & 0o7777
            if status.st_uid != geteuid() { return .foreignOwner(status.st_uid) }
            if mode & 0o022 != 0 { return .othersCanWrite(mode: mode) }
            return mode & 0o077 != 0 ? .othersCanRead(mode: mode) : nil
        }
    }

    /// A user who may write to a directory may replace its entries, unless the sticky bit is set. The user's own private group, which many
    /// distributions create, does not count as other users.
    private static func exposure(ofParent path: FilePath) -> [DoctorFacts.Exposure] {
        look(at: path) { status in
            let mode = status.st_mode & 0o7777
            if status.st_uid != 0 && status.st_uid != geteuid() { return .foreignOwner(status.st_uid) }
            let isGroups = mode & 0o020 != 0 && !PrivateGroup.isPrivate(status.st_gid, of: geteuid())
            let isOthers = mode & 0o002 != 0 || isGroups
            return isOthers && mode & 0o1000 == 0 ? .othersCanWrite(mode: mode) : nil
        }
    }

    private static func look(
        at path: FilePath, _ judge: (stat) -> DoctorFacts.Exposure.Kind?
    ) -> [DoctorFacts.Exposure] {
        var status = stat()
        guard path.withPlatformString({ lstat($0, &status) }) == 0 else {
            return [.init(path: path, kind: .unreadable(Errno.current.spoken), isDirectory: false)]
        }
        let isDirectory = status.st_mode & S_IFMT == S_IFDIR
        return judge(status).map { [.init(path: path, kind: $0, isDirectory: isDirectory)] } ?? []
    }
}
