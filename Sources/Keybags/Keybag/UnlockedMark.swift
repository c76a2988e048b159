import DurableFiles
import ProtectionKeys
import SystemPackage

/// Proves that the keybag was unlocked for the process that wrote something down: an HMAC under class key A. FORMAT.md §2.14.
package struct UnlockedMark: Hashable, Sendable {
    /// Of class key A.
    package let generation: UInt32
    /// 32 bytes.
    package let tag: [UInt8]

    package init(generation: UInt32, tag: [UInt8]) { (self.generation, self.tag) = (generation, tag) }
}

extension UnlockedMark {
    /// Of what an upload says; nil while locked.
    package init?(of text: [UInt8], _ keybag: Keybag) throws(DataProtectionError) {
        let name = try keybag.current().activeName(.complete)
        let mark = try keybag.withClassKey(name) { key throws(DataProtectionError) -> UnlockedMark in
            do throws(KeyError) {
                return UnlockedMark(generation: name.generation, tag: try key.uploadMACKey().tag(of: text))
            } catch {
                throw .cryptography(error)
            }
        }
        guard let mark else { return nil }
        self = mark
    }

    /// Whether an unlocked process made the mark for that text. A mark under a class key that was forgotten since is invalid.
    ///
    /// - Parameter file: what is to be uploaded.
    /// - Throws: `locked`.
    package func isGood(
        for text: [UInt8], of file: FilePath, _ keybag: Keybag
    ) throws(DataProtectionError) -> Bool {
        let name = ClassKeyName(keybag: keybag.uuid, protectionClass: .complete, generation: generation)
        guard try keybag.entry(of: name) != nil else { return false }
        let isGood = try keybag.withClassKey(name) { key throws(DataProtectionError) in
            do throws(KeyError) { return try key.uploadMACKey().isValid(tag, for: text) } catch {
                throw .cryptography(error)
            }
        }
        guard let isGood else { throw .locked(keybag, file, .complete, .read) }
        return isGood
    }
}
