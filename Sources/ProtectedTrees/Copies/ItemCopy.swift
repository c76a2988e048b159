import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Copies a file, a link or a tree: open and read the source, create the target, with a new file key for each.
package struct ItemCopy {
    package let keybag: Keybag

    package init(keybag: Keybag) { self.keybag = keybag }

    /// Copies `source`; `target` must not be there. It appears whole, or not at all.
    ///
    /// - Throws: `exists`, `locked`, `busy`, `notRegularFile` for devices and sockets, `system`.
    package func copy(_ source: FilePath, to target: FilePath) throws(DataProtectionError) {
        if try target.status() != nil { throw .exists(target) }
        guard let status = try source.status() else {
            throw .system(source, operation: "lstat", .noSuchFileOrDirectory)
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            return try copyLeaf(DirectoryEntry(source), status, to: DirectoryEntry(target))
        }
        try requireOutside(source, status, target)
        let from = try LowerDirectory(source)
        // A link may have taken its place.
        guard try from.status().isSameItem(as: status) else { throw .busy(source) }
        let unfinished = try UnfinishedDirectory(for: target)
        do throws(DataProtectionError) {
            try copyContents(of: from, to: unfinished.directory)
            try unfinished.publish(as: target)
        } catch {
            unfinished.remove()
            throw error
        }
    }

    /// A directory whose entries are being copied.
    private struct Level {
        /// The entries that are left.
        var waiting: ArraySlice<FilePath.Component>
        /// Whether it has a default class.
        let hasDefault: Bool
    }

    /// A directory's entries, and those of all below. By descriptors and single names, so that an attacker who swaps directories and links meanwhile
    /// cannot redirect a read or a write.
    private func copyContents(of source: LowerDirectory, to target: LowerDirectory) throws(DataProtectionError) {
        var (from, to) = (Descent(source), Descent(target))
        var levels = [try begin(source, target)]
        while let last = levels.indices.last {
            guard let name = levels[last].waiting.popFirst() else {
                try finish(levels.removeLast(), from.directory, to.directory)
                if levels.isEmpty { return }
                try from.leave()
                try to.leave()
                continue
            }
            guard let status = try from.directory.status(of: name) else { continue }  // it has just gone
            if status.st_mode & S_IFMT == S_IFDIR {
                let inner = try from.directory.directory(name, staying: false)
                try from.enter(name, inner)
                try to.make(name)
                levels.append(try begin(inner, to.directory))
            } else {
                try copyLeaf(
                    DirectoryEntry(name, in: from.directory), status, to: DirectoryEntry(name, in: to.directory))
            }
        }
    }

    /// First the default class, which new files below follow.
    private func begin(_ from: LowerDirectory, _ to: LowerDirectory) throws(DataProtectionError) -> Level {
        let value = DirectoryDefault.value(of: from.descriptorPath)
        if let value {
            try ExtendedAttributes.set(DirectoryDefault.attribute, to: Array(value.utf8), of: to.descriptorPath)
        }
        return Level(waiting: try from.names()[...], hasDefault: value != nil)
    }

    /// Last, what the directory carries itself: a read-only one takes no entries.
    private func finish(_ level: Level, _ from: LowerDirectory, _ to: LowerDirectory) throws(DataProtectionError) {
        try FileAttributes.copy(from: from.asFile(), to: to.asFile(), keepingOwner: false)
        // That of somebody else's directory does not become ours.
        if !level.hasDefault { try DirectoryDefault.remove(from: to.descriptorPath) }
        try to.asFile().flushAll()
    }

    private func copyLeaf(
        _ source: DirectoryEntry, _ status: stat, to target: DirectoryEntry
    ) throws(DataProtectionError) {
        switch status.st_mode & S_IFMT {
        case S_IFREG: try copyFile(source, to: target)
        case S_IFLNK:
            try target.directory.makeLink(
                target.name, to: source.directory.link(source.name), replacing: false)
            try target.directory.flush()
        default: throw .notRegularFile(source.path)
        }
    }

    // MARK: files

    private func copyFile(_ source: DirectoryEntry, to target: DirectoryEntry) throws(DataProtectionError) {
        let file = try source.directory.file(source.name, flags: O_RDONLY, path: source.path)
        let new = try file.isOneOfOurs() ? sealedCopy(of: file, to: target) : plaintextCopy(of: file, to: target)
        try new.finish(looksOf: file, keepingOwner: false)
        try new.publish(replacing: false)
    }

    private func sealedCopy(of file: LowerFile, to target: DirectoryEntry) throws(DataProtectionError) -> NewFile {
        // What somebody writes meanwhile would be in the copy by half.
        guard try file.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(file.path) }
        let open = OpenFile(file, keybag: keybag, isWritable: false)
        let (state, origin) = try open.judgedState(.open)
        let layout = ChunkLayout.forWholeFile(of: state.record.size)
        // The copy's origin is no better known than the source's.
        let new = try NewFile(
            target, as: state.heads.head.wrap.classKey.protectionClass, layout: layout, keybag: keybag,
            carrying: origin)
        try pour(file, state.record.size, state.holes(of: layout), into: new, layout) {
            buffer, offset throws(DataProtectionError) in try open.read(into: buffer, at: offset)
        }
        return new
    }

    private func plaintextCopy(of file: LowerFile, to target: DirectoryEntry) throws(DataProtectionError) -> NewFile {
        let place = target.directory.descriptorPath.appending(target.name)
        let protectionClass = try keybag.classForNewFile(at: place, explicit: nil, replaced: nil)
        let size = try file.length()
        let layout = ChunkLayout.forWholeFile(of: size)
        let new = try NewFile(target, as: protectionClass, layout: layout, keybag: keybag)
        try pour(file, size, file.holes(size: size, of: layout), into: new, layout) {
            buffer, offset throws(DataProtectionError) in try file.read(into: buffer, at: offset)
        }
        return new
    }

    private func pour(
        _ file: LowerFile, _ size: UInt64, _ holes: [Range<UInt64>], into new: NewFile, _ layout: ChunkLayout,
        reading read: (UnsafeMutableRawBufferPointer, UInt64) throws(DataProtectionError) -> Int
    ) throws(DataProtectionError) {
        let directory = new.unnamed.entry.directory
        try directory.requireRoom(for: size, in: layout, leavingOut: holes, of: file, copy: new.path)
        _ = try new.append(expecting: size, leavingOut: holes, reading: read) { _ throws(DataProtectionError) in true }
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
