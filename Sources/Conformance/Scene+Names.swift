import DataProtection
import Glibc
import SystemPackage

/// Names, facts and bytes as they are stored: nothing of it needs a key.
extension Scene {
    func inspect(_ rehearsal: Rehearsal) throws -> Finding {
        try make()
        return try settled(try act { try look(rehearsal) })
    }

    private func look(_ rehearsal: Rehearsal) throws {
        switch rehearsal {
        case .stat:
            let size = try subject.size(of: file)
            guard size == Self.text.count else { throw Contradiction("it says \(size) bytes") }
        case .list:
            let entries = try subject.list(directory)
            guard entries.count == 1, entries[0] == ("file", protectionClass) else {
                throw Contradiction("it lists \(entries)")
            }
        case .changeMode:
            try call("chmod") { chmod($0, 0o640) }
            guard try status(of: file).st_mode & 0o777 == 0o640 else { throw Contradiction("the mode is another one") }
        case .changeTimes:
            var times = [timeval(tv_sec: 1_000_000_000, tv_usec: 0), timeval(tv_sec: 1_000_000_000, tv_usec: 0)]
            try call("utimes") { utimes($0, &times) }
            guard try status(of: file).st_mtim.tv_sec == 1_000_000_000 else {
                throw Contradiction("the time is another one")
            }
        case .setDirectoryClass: return try setDirectoryClass()
        default: break
        }
        try requireClass(of: file)
    }

    private func setDirectoryClass() throws {
        try subject.setClass(protectionClass, of: directory)
        guard Keybag.defaultProtection(of: directory) == protectionClass.inherited else {
            throw Contradiction("the directory has another default")
        }
    }

    func rename(_ rehearsal: Rehearsal) throws -> Finding {
        try make()
        let other = directory.appending("other")
        let finding = try act {
            switch rehearsal {
            case .rename:
                try call("rename") { old in subject.place(of: other).withPlatformString { Glibc.rename(old, $0) } }
            case .link: try call("link") { old in subject.place(of: other).withPlatformString { Glibc.link(old, $0) } }
            default: try call("unlink") { Glibc.unlink($0) }
            }
            if rehearsal != .unlink { try requireClass(of: other) }
        }
        if finding == .goes, rehearsal == .unlink { contents = nil }
        guard finding == .goes, rehearsal != .unlink else { return try settled(finding) }
        if rehearsal == .rename {
            // Back, to be looked at like any other.
            _ = other.withPlatformString { old in file.withPlatformString { Glibc.rename(old, $0) } }
            return try settled(finding)
        }
        return try settled(finding, beside: ["other"])
    }

    /// The class goes with the file, and the subject says so.
    private func requireClass(of path: FilePath) throws {
        let found = try subject.protectionClass(of: path)
        guard found == protectionClass else { throw Contradiction("the class is \(found.shortName)") }
    }

    private func call(_ name: String, _ body: (UnsafePointer<CChar>) -> CInt) throws {
        guard subject.place(of: file).withPlatformString(body) == 0 else {
            throw DataProtectionError.failed(file, name)
        }
    }

    private func status(of path: FilePath) throws -> stat {
        var status = Glibc.stat()
        guard subject.place(of: path).withPlatformString({ lstat($0, &status) }) == 0 else {
            throw DataProtectionError.failed(path, "lstat")
        }
        return status
    }
}
