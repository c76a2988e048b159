import Glibc
import ProtectionFormat
import ProtectionKeys
package import SystemPackage

/// Copies a file, a link or a tree: open and read the source, create the target, with a new file key for each.
package struct ItemCopy {
    let keybag: Keybag

    package init(keybag: Keybag) { self.keybag = keybag }

    /// Copies `source`; `target` must not be there. It appears whole, or not at all.
    ///
    /// - Throws: `exists`, `locked`, `busy`, `notRegularFile` for devices and sockets, `system`.
    package func copy(_ source: FilePath, to target: FilePath) throws(DataProtectionError) {
        if try target.status() != nil { throw .exists(target) }
        guard let status = try source.status() else {
            throw .system(source, operation: "lstat", .noSuchFileOrDirectory)
        }
        guard status.st_mode & S_IFMT == S_IFDIR else { return try copyLeaf(source, status, to: target) }
        try requireOutside(source, status, target)
        let unfinished = try UnfinishedDirectory(for: target)
        do throws(DataProtectionError) {
            try copyContents(of: source, to: unfinished.path)
            try unfinished.publish(as: target)
        } catch {
            unfinished.remove()
            throw error
        }
    }

    /// A directory's entries; last, what it carries itself: a read-only one takes no entries.
    private func copyContents(of source: FilePath, to target: FilePath) throws(DataProtectionError) {
        let from = try LowerFile(source, flags: O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        let to = try LowerFile(target, flags: O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        // First the default class, which new files below follow.
        if let name = DirectoryDefault.value(of: source) {
            try ExtendedAttributes.set(DirectoryDefault.attribute, to: Array(name.utf8), of: target)
        }
        for name in try DirectoryListing.components(of: source) {
            let (inner, copy) = (source.appending(name), target.appending(name))
            guard let status = try inner.status() else { continue }  // it has just gone
            if status.st_mode & S_IFMT == S_IFDIR {
                _ = try retrying(copy, "mkdir") { copy.withPlatformString { mkdir($0, 0o700) } }
                try copyContents(of: inner, to: copy)
            } else {
                try copyLeaf(inner, status, to: copy)
            }
        }
        try FileAttributes.copy(from: from, to: to, keepingOwner: false)
        // That of somebody else's directory does not become ours.
        if DirectoryDefault.value(of: source) == nil { try DirectoryDefault.remove(from: target) }
        try to.flushAll()
    }

    private func copyLeaf(_ source: FilePath, _ status: stat, to target: FilePath) throws(DataProtectionError) {
        switch status.st_mode & S_IFMT {
        case S_IFREG: try copyFile(source, to: target)
        case S_IFLNK: try copyLink(source, to: target)
        default: throw .notRegularFile(source)
        }
    }

    // MARK: files

    private func copyFile(_ source: FilePath, to target: FilePath) throws(DataProtectionError) {
        let file = try LowerFile(source, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        try file.requireRegular()
        let new: NewFile
        if try file.isOneOfOurs() {
            // What somebody writes meanwhile would be in the copy by half.
            guard try file.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(source) }
            let open = OpenFile(file, keybag: keybag, isWritable: false)
            let size = try open.size(.open)
            let head = try open.operate(.open) { state, _ throws(Trouble) in state.heads.head }
            // Who made the source is not known better for its copy.
            new = try NewFile(
                target, as: head.wrap.classKey.protectionClass, layout: .forWholeFile(of: size), keybag: keybag,
                carrying: try keybag.verdict(of: head))
            try pour(into: new) { buffer, offset throws(DataProtectionError) in
                try open.read(into: buffer, at: offset)
            }
        } else {
            let protectionClass = try keybag.classForNewFile(at: target, explicit: nil, replaced: nil)
            new = try NewFile(target, as: protectionClass, layout: .forWholeFile(of: try file.length()), keybag: keybag)
            try pour(into: new) { buffer, offset throws(DataProtectionError) in
                try file.read(into: buffer, at: offset)
            }
        }
        try new.finish(looksOf: file, keepingOwner: false)
        try new.publish(replacing: false)
    }

    private func pour(
        into new: NewFile,
        _ read: (UnsafeMutableRawBufferPointer, UInt64) throws(DataProtectionError) -> Int
    ) throws(DataProtectionError) {
        let buffer = WipedBuffer(count: OpenFile.segment)
        var done: UInt64 = 0
        while case let count = try read(buffer.bytes, done), count > 0 {
            try new.append(UnsafeRawBufferPointer(buffer.prefix(count)))
            done += UInt64(count)
        }
    }

    private func copyLink(_ source: FilePath, to target: FilePath) throws(DataProtectionError) {
        var text = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = try retrying(source, "readlink") {
            source.withPlatformString { readlink($0, &text, text.count - 1) }
        }
        _ = try retrying(target, "symlink") { target.withPlatformString { symlink(Array(text[...count]), $0) } }
        try AtomicReplace.flushDirectory(target.directory)
    }

    // MARK: names

    /// A tree that is copied into itself has no end.
    private func requireOutside(
        _ source: FilePath, _ status: stat, _ target: FilePath
    ) throws(DataProtectionError) {
        var directory = try target.directory.resolved()
        while true {
            let above = try directory.status()
            if above?.st_ino == status.st_ino, above?.st_dev == status.st_dev {
                throw .system(target, operation: "copy", .invalidArgument)
            }
            if directory.components.isEmpty { return }
            directory = directory.removingLastComponent()
        }
    }
}
