package import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectedTrees
import SystemPackage

extension DataProtectionError {
    /// What to type next, if anything helps. Names only commands that exist.
    package var hint: String? {
        switch self {
        case .because(let failure as KeybagFailure): failure.hint
        case .because(let failure as FileFailure): failure.hint
        case .because(let failure as TreeFailure): failure.hint
        case .notProtected(let path): "protect it first: protectfs protect \(quoted(path))"
        case .damaged(let path, .chunk, _, _): "save what still opens: protectfs unprotect --salvage \(quoted(path))"
        case .busy: "try again when the other program has finished"
        case .hasHardLinks(let path, _):
            "work on a copy of it; to list its names: find / -xdev -samefile \(quoted(path))"
        case .usedElsewhere(let path): "stop the programs that use it there, then take it over: rm \(quoted(path))"
        case .keybagUnsafe(let path, _):
            ownerHint(path) ?? "see who owns it: ls -ld \(quoted(path))"
        case .system(_, _, .noSpace): "free some disk space; nothing that was there before has changed"
        default: nil
        }
    }

    /// The way out when something belongs to another user.
    private func ownerHint(_ path: FilePath) -> String? {
        guard let owner = OwnDirectory.owner(of: path), owner != geteuid() else { return nil }
        return "run the command as its owner, for example with sudo -u '#\(owner)'"
    }
}
