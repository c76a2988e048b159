import DurableFiles
import ProtectionKeys
import SystemPackage

/// Shows that whoever wrote something down was unlocked at that time: an HMAC under class key A. FORMAT.md §2.14.
package struct UnlockedMark: Hashable, Sendable {
    /// Of class key A.
    package let generation: UInt32
    /// 32 bytes.
    package let tag: [UInt8]

    package init(generation: UInt32, tag: [UInt8]) { (self.generation, self.tag) = (generation, tag) }
}

extension Keybag {
    /// Marks what an upload says; nil while locked.
    package func markUpload(_ text: [UInt8]) throws(DataProtectionError) -> UnlockedMark? {
        let name = try current().activeName(.complete)
        return try withClassKey(name) { key throws(DataProtectionError) -> UnlockedMark in
            do throws(KeyError) {
                return UnlockedMark(generation: name.generation, tag: try key.uploadMACKey().tag(of: text))
            } catch {
                throw .cryptography(error)
            }
        }
    }

    /// Whether somebody unlocked has marked it. A mark under a class key that was forgotten since is none.
    ///
    /// - Parameter file: what is to be uploaded.
    /// - Throws: `locked`.
    package func isUpload(
        _ text: [UInt8], markedBy mark: UnlockedMark, of file: FilePath
    ) throws(DataProtectionError) -> Bool {
        let name = ClassKeyName(keybag: uuid, protectionClass: .complete, generation: mark.generation)
        guard try entry(of: name) != nil else { return false }
        let isGood = try withClassKey(name) { key throws(DataProtectionError) in
            do throws(KeyError) { return try key.uploadMACKey().isValid(mark.tag, for: text) } catch {
                throw .cryptography(error)
            }
        }
        guard let isGood else { throw lockedError(file, .complete, .read) }
        return isGood
    }
}
