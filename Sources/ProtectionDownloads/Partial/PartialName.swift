import DataProtection

/// What the parts of a download are called, beside its target: `.NAME.protectfs-download-ID-number`. FORMAT.md §2.14.
///
/// NAME is cut so that all of it has at most 255 bytes.
struct PartialName: Hashable, Sendable {
    private static let word = ".protectfs-download-"

    let target: FilePath
    let id: DownloadID

    /// Where the part of that number is.
    func path(_ number: Int) -> FilePath { target.directory.appending(prefix + String(number)) }

    private var prefix: String {
        let name = target.lastComponent?.string ?? ""
        var end = name.startIndex
        while end < name.endIndex, name[...end].utf8.count <= 180 { end = name.index(after: end) }
        return ".\(name[..<end])\(Self.word)\(id)-"
    }

    /// The numbers of all parts that are in the directory.
    func numbers() throws(DataProtectionError) -> [Int] {
        let prefix = prefix
        return try DirectoryListing.names(of: target.directory).compactMap {
            $0.hasPrefix(prefix) ? Int($0.dropFirst(prefix.count)) : nil
        }
    }

    /// Removes what is left of a download that is over. Where its directory has gone nothing is left.
    func removeRest() throws(DownloadError) {
        do throws(DataProtectionError) { try removeAll() } catch .system(_, _, .noSuchFileOrDirectory) {
        } catch .system(_, _, .notDirectory) {
        } catch {
            throw .protection(error)
        }
    }

    /// Removes whatever is there of downloads of which the list says that nothing is: a power cut may have taken its note back.
    /// Looks into each directory once. One that cannot be read is none of anybody's trouble now.
    static func removeForgotten(_ names: [PartialName]) {
        for (directory, names) in Dictionary(grouping: names, by: \.target.directory) {
            guard let all = try? DirectoryListing.names(of: directory) else { continue }
            let left = all.filter { $0.contains(word) }
            for name in names where left.contains(where: { $0.hasPrefix(name.prefix) }) { try? name.removeAll() }
        }
    }

    /// Removes all parts but those that are to stay, and makes that last.
    func removeAll(but kept: [Int] = []) throws(DataProtectionError) {
        let numbers = try numbers().filter { !kept.contains($0) }
        for number in numbers { try AtomicReplace.remove(path(number)) }
        if !numbers.isEmpty { try AtomicReplace.flushDirectory(target.directory) }
    }
}
