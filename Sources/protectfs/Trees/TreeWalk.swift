import DataProtection
import Glibc

/// A directory and everything below it, directories before what is in them. Links are not followed.
///
/// Each directory is opened in the one above it, by one name that is not followed. So whoever swaps directories and links meanwhile
/// does not get anything visited elsewhere; what is done to an item must go by its ``NamedItem/entry``.
struct TreeWalk {
    /// What to do after an item.
    enum Step {
        case goOn
        /// Nothing below this directory.
        case leaveOut
        case stop
    }

    /// Whether to go into directories of other file systems.
    let crossesFileSystems: Bool
    /// Called for each of them that is left out.
    var leavesOut: (NamedItem) -> Void = {
        StandardError.line(.warning, "\(quoted($0.path)) is another file system and is left out")
    }

    /// Visits `root` and what is below; what cannot be read is recorded in `failures` and left out.
    ///
    /// - Returns: false if the visitor stopped the walk.
    @discardableResult
    func walk(
        _ root: FilePath, recordingIn failures: Outcome?, _ visit: (NamedItem) -> Step
    ) -> Bool {
        do throws(DataProtectionError) {
            let item = try NamedItem(root)
            return walk(
                item, opening: { () throws(DataProtectionError) in try Self.open(item) }, failures, item.device, visit)
        } catch {
            failures?.record(error)
            return true
        }
    }

    /// The directory that was named and looked at.
    private static func open(_ item: NamedItem) throws(DataProtectionError) -> LowerDirectory {
        let directory = try LowerDirectory(item.path)
        let status = try directory.status()
        guard status.st_dev == item.device, status.st_ino == item.inode else {
            throw .system(item.path, operation: "open", .staleNFSFileHandle)
        }
        return directory
    }

    private func walk(
        _ item: NamedItem, opening open: () throws(DataProtectionError) -> LowerDirectory, _ failures: Outcome?,
        _ device: dev_t, _ visit: (NamedItem) -> Step
    ) -> Bool {
        if item.kind == .directory, item.device != device, !crossesFileSystems {
            leavesOut(item)
            return true
        }
        switch visit(item) {
        case .stop: return false
        case .leaveOut: return true
        case .goOn: if item.kind != .directory { return true }
        }
        do throws(DataProtectionError) {
            let directory = try open()
            for name in try directory.names() {
                do throws(DataProtectionError) {
                    guard let found = try NamedItem(DirectoryEntry(name, in: directory)) else { continue }
                    let goesOn = walk(
                        found,
                        opening: { () throws(DataProtectionError) in
                            try directory.directory(name, staying: !crossesFileSystems)
                        }, failures, device, visit)
                    guard goesOn else { return false }
                } catch {
                    failures?.record(error)
                }
            }
        } catch {
            failures?.record(error)
        }
        return true
    }

    /// The paths in a directory, in the order of their bytes. In the working directory named `.`, without the dot.
    static func contents(of directory: FilePath) throws(DataProtectionError) -> [FilePath] {
        try DirectoryListing.components(of: directory).map {
            directory == "." ? FilePath(root: nil, [$0]) : directory.appending($0)
        }
    }
}
