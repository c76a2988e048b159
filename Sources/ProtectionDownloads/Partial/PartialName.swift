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

    /// Removes all parts but those that are to stay, and makes that last.
    func removeAll(but kept: [Int] = []) throws(DataProtectionError) {
        let numbers = try numbers().filter { !kept.contains($0) }
        for number in numbers { try AtomicReplace.remove(path(number)) }
        if !numbers.isEmpty { try AtomicReplace.flushDirectory(target.directory) }
    }
}
