import DataProtection
import Glibc

/// A directory and everything below it, directories before what is in them. Links are not followed.
///
/// Each directory is opened in the one above it, by one name that is not followed. So an attacker who swaps directories and links meanwhile cannot
/// redirect the walk; every operation on an item must use its ``NamedItem/entry``. A tree may be of any depth.
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
            switch visit(item) {
            case .stop: return false
            case .leaveOut: return true
            case .goOn: return try item.kind == .directory ? walk(Self.open(item), item.device, failures, visit) : true
            }
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

    /// Visits what is below an open directory; what cannot be read is recorded in `failures` and left out.
    ///
    /// - Returns: false if the visitor stopped the walk.
    /// - Throws: `system` if the directory itself cannot be read, or if the way back up to one is lost: the rest is not visited then.
    @discardableResult
    func walk(
        below directory: LowerDirectory, recordingIn failures: Outcome?, _ visit: (NamedItem) -> Step
    ) throws(DataProtectionError) -> Bool {
        try walk(directory, directory.status().st_dev, failures, visit)
    }

    /// - Throws: `system` if the directory cannot be read, or if the way back up to one is lost: the rest is not visited then.
    private func walk(
        _ top: LowerDirectory, _ device: dev_t, _ failures: Outcome?, _ visit: (NamedItem) -> Step
    ) throws(DataProtectionError) -> Bool {
        var descent = Descent(top)
        let mounts = try MountTable.own()
        // The names that are left in each directory on the way down.
        var waiting = [try top.names()[...]]
        while let last = waiting.indices.last {
            guard let name = waiting[last].popFirst() else {
                waiting.removeLast()
                if !waiting.isEmpty { try descent.leave() }
                continue
            }
            let directory = descent.directory
            do throws(DataProtectionError) {
                if !mounts.isEmpty { try StoredPlace.requireAnswer(at: name, in: directory, of: mounts) }
                guard let item = try NamedItem(DirectoryEntry(name, in: directory)) else { continue }
                let below = try stored(below: item, on: device)
                if below == nil, item.kind == .directory, item.device != device, !crossesFileSystems {
                    leavesOut(item)
                    continue
                }
                switch visit(item) {
                case .stop: return false
                case .leaveOut: continue
                case .goOn: if item.kind != .directory { continue }
                }
                let inner = if let below { below } else { try directory.directory(name, staying: !crossesFileSystems) }
                let names = try inner.names()
                try descent.enter(name, inner)
                waiting.append(names[...])
            } catch {
                failures?.record(error)
            }
        }
        return true
    }

    /// The stored files of a directory over which a mount shows their plaintext; nil for anything else.
    private func stored(
        below item: NamedItem, on device: dev_t
    ) throws(DataProtectionError) -> LowerDirectory? {
        guard item.kind == .directory, item.device != device, let entry = item.entry else { return nil }
        guard let below = try StoredPlace.directory(mountedOver: entry, device: item.device) else { return nil }
        let isHere = try below.status().st_dev == device
        return crossesFileSystems || isHere ? below : nil
    }

    /// The paths in a directory, in the order of their bytes. In the working directory named `.`, without the dot.
    static func contents(of directory: FilePath) throws(DataProtectionError) -> [FilePath] {
        try DirectoryListing.components(of: directory).map {
            directory == "." ? FilePath(root: nil, [$0]) : directory.appending($0)
        }
    }
}
