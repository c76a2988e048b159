import DataProtection
import Glibc

/// A directory and everything below it, directories before what is in them. Links are not followed.
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
            return walk(item, device: item.device, failures, visit)
        } catch {
            failures?.record(error)
            return true
        }
    }

    private func walk(
        _ item: NamedItem, device: dev_t, _ failures: Outcome?, _ visit: (NamedItem) -> Step
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
            for path in try Self.contents(of: item.path) {
                do throws(DataProtectionError) {
                    guard walk(try NamedItem(path), device: device, failures, visit) else { return false }
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
