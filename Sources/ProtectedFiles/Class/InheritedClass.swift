import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The class of a file that is about to be replaced.
///
/// A head names its class in clear, and its check needs no key: while the keybag is locked, anybody who can write to the file can
/// change the class in it. So the class is inherited only if a key proves it.
package struct InheritedClass: Hashable {
    /// What the head says.
    package let claimed: ProtectionClass
    /// Whether the class key of that class opens the file, and nobody could have made it without a secret of this keybag.
    package let isAuthentic: Bool
    /// Whether ``claimed`` is not proved although its class key could prove it now: then the head may have been altered, or
    /// another file put in the place of the genuine one. False while the class key is not in the keyring.
    package var isRefuted = false
}

extension InheritedClass {
    /// That of `file`; nil if it is not a protected file.
    ///
    /// - Throws: `damaged`, `unsupported`, `system`.
    package init?(of file: LowerFile, _ keybag: Keybag) throws(DataProtectionError) {
        let head: Head
        do throws(DataProtectionError) { head = try ProtectedFileInfo.state(of: file).heads.head } catch {
            switch error {
            case .notProtected, .because(FileFailure.mangled): return nil
            default: throw error
            }
        }
        var session = KeySession(keybag, isCounted: false)
        self = session.inheritedClass(from: head, file.path)
    }

    /// The weakest class that a file may get which replaces `file`, where nobody chooses one; nil if `file` is not protected.
    ///
    /// It is the class of `file`. What was altered or cannot be read may have been `complete`.
    package static func least(inPlaceOf file: LowerFile, _ keybag: Keybag) -> ProtectionClass? {
        let head: Head
        do throws(DataProtectionError) { head = try ProtectedFileInfo.state(of: file).heads.head } catch {
            if case .notProtected = error { return nil }
            return .complete
        }
        var session = KeySession(keybag, isCounted: false)
        let inherited = session.inheritedClass(from: head, file.path)
        return inherited.isRefuted ? .complete : inherited.claimed
    }
}

extension KeySession {
    fileprivate mutating func inheritedClass(from head: Head, _ path: FilePath) -> InheritedClass {
        let claimed = head.wrap.classKey.protectionClass
        // If only the class was changed, the key of the original class still opens the file.
        for candidate in [claimed] + ProtectionClass.allCases where isProven(candidate, of: head, path) {
            return InheritedClass(claimed: candidate, isAuthentic: true)
        }
        return InheritedClass(claimed: claimed, isAuthentic: false, isRefuted: !isWaitingForKey(of: head, path))
    }

    /// Whether only an unlock can show if the class key that the head names opens the file.
    private mutating func isWaitingForKey(of head: Head, _ path: FilePath) -> Bool {
        do throws(DataProtectionError) { _ = try fileKey(of: head, path: path, .read) } catch {
            if case .because(KeybagFailure.locked) = error { return true }
        }
        return false
    }

    private mutating func isProven(_ protectionClass: ProtectionClass, of head: Head, _ path: FilePath) -> Bool {
        let claimed = head.wrap.classKey
        let name = ClassKeyName(
            keybag: claimed.keybag, protectionClass: protectionClass, generation: claimed.generation)
        do throws(DataProtectionError) {
            _ = try fileKey(of: head, under: name, path: path, .read)
            // Class B's public key is enough to make a file that opens.
            guard protectionClass == .completeUnlessOpen else { return true }
            return try verdict(of: head) != .unverified
        } catch {
            return false
        }
    }
}
