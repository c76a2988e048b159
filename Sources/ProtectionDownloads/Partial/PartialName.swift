import DataProtection

/// What the parts of a download are called, beside its target: `.NAME.protectfs-download-ID-number`. FORMAT.md §2.14.
///
/// NAME is cut so that all of it has at most 255 bytes.
struct PartialName: Hashable, Sendable {
    private static let word = ".protectfs-download-"

    let target: FilePath
    let id: DownloadID

    /// Where the part of that number is.
    func path(_ number: Int) -> FilePath {
        target.directory.appending(component(number))
    }

    private func component(_ number: Int) -> FilePath.Component {
        FilePath(bytes: prefix + Array("\(number)".utf8)).lastComponent!
    }

    private var prefix: [UInt8] {
        let name = target.lastComponent?.beginning(180) ?? []
        return Array(".".utf8) + name + Array("\(Self.word)\(id)-".utf8)
    }

    /// The numbers of all parts that are in the directory.
    func numbers() throws(DataProtectionError) -> [Int] { try numbers(in: StoredPlace.of(target.directory)) }

    private func numbers(in directory: FilePath) throws(DataProtectionError) -> [Int] {
        let prefix = prefix
        return try DirectoryListing.components(of: directory).map(\.bytes).compactMap {
            $0.starts(with: prefix) ? Int(String(decoding: $0.dropFirst(prefix.count), as: UTF8.self)) : nil
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
            guard let all = try? DirectoryListing.components(of: StoredPlace.of(directory)).map(\.bytes) else {
                continue
            }
            let hidden = all.filter { $0.first == UInt8(ascii: ".") }
            for name in names {
                let prefix = name.prefix
                if hidden.contains(where: { $0.starts(with: prefix) }) { try? name.removeAll() }
            }
        }
    }

    /// Removes all parts but those that are to stay, and makes that last.
    func removeAll(but kept: [Int] = []) throws(DataProtectionError) {
        let directory = try StoredPlace.of(target.directory)
        let numbers = try numbers(in: directory).filter { !kept.contains($0) }
        for number in numbers { try AtomicReplace.remove(directory.appending(component(number))) }
        if !numbers.isEmpty { try AtomicReplace.flushDirectory(directory) }
    }
}
