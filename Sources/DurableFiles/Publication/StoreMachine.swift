import Glibc
import ProtectionKeys
import SystemPackage

/// Which machine uses a store: the file `machine` in the store's directory. FORMAT.md §§2.14, 2.15.
///
/// SQLite's write-ahead log has an index in memory that the processes of one machine share. Two machines that write through a shared
/// file system do not see each other's index, and changes that were acknowledged are lost.
package enum StoreMachine {
    /// Notes that this machine uses the store, unless a machine is noted already.
    ///
    /// - Parameters:
    ///   - directory: the store's; it must be there.
    ///   - machine: 32 hexadecimal digits. Nil, where there is no machine-id(5): nothing is noted, and nothing is refused.
    /// - Throws: `usedElsewhere` if another machine is noted; `system`.
    package static func claim(_ directory: FilePath, for machine: String? = own) throws(DataProtectionError) {
        guard let machine else { return }
        let path = directory.appending("machine")
        // Read again after writing: where there are no links, another machine may have been faster.
        for _ in 0..<3 {
            if let noted = try read(path) {
                guard noted == machine else { throw .usedElsewhere(path) }
                return
            }
            let temporary = directory.appending(".machine.\(getpid()).\(UInt64.random(in: 0...UInt64.max))")
            do throws(DataProtectionError) {
                try AtomicReplace.write(
                    Array((machine + "\n").utf8), to: path, through: temporary, AtomicReplace.publishAsNew)
            } catch .exists {}
        }
        throw .busy(path)
    }

    /// This machine: derived from machine-id(5), which is not to be shown to others.
    package static let own: String? = {
        guard let file = try? LowerFile(regular: "/etc/machine-id", flags: O_RDONLY),
            let text = try? file.bytes(at: 0, count: 32), text.count == 32,
            text.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }),
            let digest = try? Digest.sha256(Array("protectfs/1 machine".utf8) + [0] + text)
        else { return nil }
        return Hexadecimal.text(Array(digest.prefix(16)))
    }()

    /// Nil if no machine is noted.
    private static func read(_ path: FilePath) throws(DataProtectionError) -> String? {
        do throws(DataProtectionError) {
            let bytes = try LowerFile(regular: path, flags: O_RDONLY | O_NOFOLLOW).bytes(at: 0, count: 64)
            return String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return nil
        }
    }
}
