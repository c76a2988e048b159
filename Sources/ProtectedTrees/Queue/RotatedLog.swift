import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import SystemPackage

/// The names of a log and of its older parts: `LOG`, `LOG.1`, `LOG.2` …, and `LOG.segment-N`.
package struct RotatedLog {
    private let log: FilePath

    package init(_ log: FilePath) { self.log = log }

    /// The part that is `age` rotations old.
    package func path(_ age: Int) -> FilePath { age == 0 ? log : beside("\(age)") }

    /// The segment of that number.
    package func segment(_ number: UInt64) -> FilePath { beside("segment-\(number)") }

    /// Whether `path`, which has no links in its directory, is one of the names of ``segment(_:)``.
    package func hasSegment(_ path: FilePath) -> Bool {
        let directory = path.directory
        guard let name = log.lastComponent, directory == log.directory || directory == (try? log.directory.resolved())
        else { return false }
        let digits = path.bytes.reversed().prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }.reversed()
        guard let number = UInt64(String(decoding: Array(digits), as: UTF8.self)) else { return false }
        return RotatedLog(directory.appending(name)).segment(number) == path
    }

    /// A number that no segment has: one more than the highest that can be followed.
    package func nextSegment() throws(DataProtectionError) -> UInt64 {
        FreeNumber.after(try suffixes().compactMap { $0.hasPrefix("segment-") ? UInt64($0.dropFirst(8)) : nil })
    }

    /// The log and its older parts, as far as they are there.
    package func paths() throws(DataProtectionError) -> [FilePath] {
        [log] + (try suffixes().compactMap { Int($0) }.filter { $0 > 0 }.map { path($0) })
    }

    /// Renames each part to the next older one, up to the first age that is free; the part of age `count` goes if none is.
    ///
    /// rename(2) needs no key. Killed in the middle it leaves an age free, which the next rotation uses.
    /// - Parameters:
    ///   - count: how many older parts to keep, at least 1.
    ///   - directory: the open directory of the log. Its path may lead elsewhere by now.
    package func rotate(keeping count: Int, in directory: LowerDirectory) throws(DataProtectionError) {
        var names: [FilePath.Component] = []
        while names.count <= max(count, 1), let name = path(names.count).lastComponent {
            names.append(name)
            if try directory.status(of: name) == nil { break }
        }
        for (newer, older) in zip(names, names.dropFirst()).reversed() {
            try directory.rename(newer, to: older)
        }
        try directory.flush()
    }

    /// By bytes: two names that look the same can be two files.
    private func suffixes() throws(DataProtectionError) -> [Substring] {
        let beginning = (log.lastComponent?.bytes ?? []) + Array(".".utf8)
        return try DirectoryListing.components(of: log.directory).compactMap { name in
            let bytes = name.bytes
            guard bytes.starts(with: beginning) else { return nil }
            return Substring(decoding: bytes.dropFirst(beginning.count), as: UTF8.self)
        }
    }

    private func beside(_ suffix: String) -> FilePath { FilePath(bytes: log.bytes + Array(".\(suffix)".utf8)) }
}
