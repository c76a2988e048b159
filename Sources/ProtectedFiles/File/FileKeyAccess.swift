import DurableFiles
import KernelKeyring
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// From a head to a file key, and from a new file key to a wrap record.
extension KeySession {
    /// Opens the file key of a head and checks its commitment.
    ///
    /// - Parameter name: the class key to use instead of the one that the head names.
    /// - Throws: `foreignKeybag`, `locked`, `keyLost`, `otherKey`, `damaged`.
    package mutating func fileKey(
        of head: Head, under name: ClassKeyName? = nil, path: FilePath, _ operation: AttemptedOperation
    ) throws(DataProtectionError) -> FileKey {
        let name = name ?? head.wrap.classKey
        guard name.keybag == keybag.uuid else { throw .because(FileFailure.foreignKeybag(path, name.keybag)) }
        guard try keybag.entry(of: name) != nil else { throw .keyLost(keybag, path, name) }
        let unwrapped: FileKey?
        if name.protectionClass == .completeUnlessOpen {
            unwrapped = try withClassB(name) { classKey throws(DataProtectionError) in
                try Self.unwrapping(path, name) { () throws(KeyError) in try classKey.unwrap(head.wrap.wrapped) }
            }
        } else {
            unwrapped = try withClassKey(name) { classKey throws(DataProtectionError) in
                try Self.unwrapping(path, name) { () throws(KeyError) in try classKey.unwrap(head.wrap.wrapped) }
            }
        }
        guard let fileKey = unwrapped else { throw .absent(keybag, path, name, operation) }
        try withFormat(path) { () throws(FormatError) in try head.checkCommitment(of: fileKey) }
        return fileKey
    }

    private static func unwrapping(
        _ path: FilePath, _ name: ClassKeyName, _ unwrap: () throws(KeyError) -> FileKey
    ) throws(DataProtectionError) -> FileKey {
        do throws(KeyError) { return try unwrap() } catch .libraryFailed(let operation, let code) {
            throw .cryptography(.libraryFailed(operation: operation, code: code))
        } catch {
            // The check of the head is good, so that no accident did this.
            throw .because(FileFailure.otherKey(path, name.protectionClass, generation: name.generation))
        }
    }

    /// Wraps a file key for a class: the record of a new file, or of a class change.
    ///
    /// - Parameters:
    ///   - counter: 1 for a new file.
    ///   - verdict: of the record it replaces; nil for a new file.
    /// - Throws: `locked` when the class key is not here. Class B never is: only its public key is needed. `keybagDamaged` if an older copy of the
    ///   keybag was put back; `keybagUnsafe` as ``KeybagRegistry/refuseReplaced(_:)``.
    package mutating func wrap(
        _ fileKey: borrowing FileKey, of file: FileID, as protectionClass: ProtectionClass, counter: UInt64,
        carrying verdict: OriginMark.Verdict?, path: FilePath, _ operation: AttemptedOperation
    ) throws(DataProtectionError) -> WrapRecord {
        let copy = try keybag.current()
        let name = copy.activeName(protectionClass)
        let wrapped: WrappedKey
        if protectionClass == .completeUnlessOpen {
            let publicKey = try trustedPublicKey(copy, path, operation)
            do throws(KeyError) { wrapped = try publicKey.wrap(fileKey) } catch { throw .cryptography(error) }
        } else {
            let result = try withClassKey(name) { classKey throws(DataProtectionError) in
                do throws(KeyError) { return try classKey.wrap(fileKey) } catch { throw .cryptography(error) }
            }
            guard let result else { throw .locked(keybag, path, protectionClass, operation) }
            wrapped = result
        }
        let commitment: [UInt8]
        do throws(KeyError) { commitment = try fileKey.commitment(of: file) } catch { throw .cryptography(error) }
        let origin = try originMark(copy, name, file, wrapped, commitment, carrying: verdict)
        try refuseOlder(copy)
        return WrapRecord(
            counter: counter, classKey: name, wrapped: wrapped, commitment: commitment, origin: origin)
    }

    /// Class B's public key, after the strongest MAC that can be checked has been. FORMAT.md §2.1.
    ///
    /// - Throws: `keybagDamaged` if it is not good; `locked` if the ring holds another class key C than the keybag says:
    ///   an unlock finds out which of them is wrong; `keybagUnsafe` if it holds those of a keybag whose place this one has.
    private mutating func trustedPublicKey(
        _ copy: KeybagCopy, _ path: FilePath, _ operation: AttemptedOperation
    ) throws(DataProtectionError) -> ClassBPublicKey {
        let name = copy.activeName(.completeUnlessOpen)
        guard let half = copy.active(.completeUnlessOpen).publicHalf else {
            throw .because(KeybagFailure.keybagDamaged(keybag.directory, reason: "it has no public key of class B"))
        }
        let message = ClassKeyEntry.PublicHalf.message(name: name, key: half.key)
        let isGood: Bool
        let underC = try withReachableClassKey(copy.activeName(.completeUntilFirstUserAuthentication)) {
            classKey throws(DataProtectionError) in
            do throws(KeyError) { return try classKey.bPublicMACKey().isValid(half.macUnderC, for: message) } catch {
                throw .cryptography(error)
            }
        }
        if let underC {
            isGood = underC
        } else if !isKeyringRefused, try holdsClassC() {
            // The device key lies beside the keybag: it vouches only where nothing better can.
            throw .locked(keybag, path, .completeUnlessOpen, operation)
        } else {
            try KeybagRegistry.refuseReplaced(keybag)
            isGood = try keybag.withDeviceKey { device throws(DataProtectionError) in
                do throws(KeyError) {
                    return try device.bPublicMACKey(for: name.keybag).isValid(half.macUnderDevice, for: message)
                } catch {
                    throw .cryptography(error)
                }
            }
        }
        guard isGood else {
            throw .because(
                KeybagFailure.keybagDamaged(keybag.directory, reason: "class B's public key is not authentic"))
        }
        return half.key
    }

    /// Lends class key A, C or D; nil also where keyring calls are refused.
    private mutating func withReachableClassKey<R>(
        _ name: ClassKeyName, _ body: (borrowing ClassKey) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R? {
        do throws(DataProtectionError) { return try withClassKey(name, body) } catch {
            guard case .because(KeybagFailure.keyringUnavailable) = error, isKeyringRefused else { throw error }
            return nil
        }
    }

    // MARK: origin, FORMAT.md §3.3

    /// What can be said now about who made the file.
    package mutating func verdict(of head: Head) throws(DataProtectionError) -> OriginMark.Verdict {
        let origin = head.wrap.origin
        let uuid = keybag.uuid
        guard head.wrap.classKey.keybag == uuid else { return .unverified }
        let message = OriginMark.message(
            file: head.prefix.fileID, classKey: head.wrap.classKey, verdict: origin.verdict,
            wrapped: head.wrap.wrapped, commitment: head.wrap.commitment)
        switch origin.key {
        case .none: return .unverified
        case .classC:
            let name = ClassKeyName(
                keybag: uuid, protectionClass: .completeUntilFirstUserAuthentication, generation: origin.generation)
            let isGood = try withClassKey(name) { classKey throws(DataProtectionError) in
                do throws(KeyError) { return try classKey.originMACKey().isValid(origin.mac, for: message) } catch {
                    throw .cryptography(error)
                }
            }
            return isGood == true ? origin.verdict : .unverified
        case .device:
            // Without the device key it cannot be checked, which is a verdict and not an error.
            let isGood = try? keybag.withDeviceKey { device throws(DataProtectionError) in
                do throws(KeyError) {
                    return try device.originMACKey(for: uuid).isValid(origin.mac, for: message)
                } catch {
                    throw .cryptography(error)
                }
            }
            return isGood == true ? min(origin.verdict, .thisDevice) : .unverified
        }
    }

    /// Refuses a class B file that anyone could have made with the public key. Its maker knows the file key, so the file must not get new contents or
    /// another class.
    ///
    /// - Parameter head: authenticated under a file key that class key B has just opened; class key C is here then, too.
    /// - Throws: `unverifiedOrigin`.
    /// - SeeAlso: FORMAT.md §3.3.
    package mutating func requireOrigin(of head: Head, path: FilePath) throws(DataProtectionError) {
        guard head.wrap.classKey.protectionClass == .completeUnlessOpen else { return }
        let verdict = try verdict(of: head)
        if verdict == .unverified { throw .because(FileFailure.unverifiedOrigin(path, verdict)) }
    }

    private mutating func originMark(
        _ copy: KeybagCopy, _ name: ClassKeyName, _ file: FileID, _ wrapped: WrappedKey, _ commitment: [UInt8],
        carrying verdict: OriginMark.Verdict?
    ) throws(DataProtectionError) -> OriginMark {
        func message(_ verdict: OriginMark.Verdict) -> [UInt8] {
            OriginMark.message(
                file: file, classKey: name, verdict: verdict, wrapped: wrapped, commitment: commitment)
        }
        let nameC = copy.activeName(.completeUntilFirstUserAuthentication)
        let underC = try withReachableClassKey(nameC) { classKey throws(DataProtectionError) -> OriginMark in
            let verdict = verdict ?? .verified
            do throws(KeyError) {
                let mac = try classKey.originMACKey().tag(of: message(verdict))
                return OriginMark(verdict: verdict, key: .classC, generation: nameC.generation, mac: mac)
            } catch {
                throw .cryptography(error)
            }
        }
        if let underC { return underC }
        do throws(DataProtectionError) {
            return try keybag.withDeviceKey { device throws(DataProtectionError) in
                let verdict = min(verdict ?? .thisDevice, .thisDevice)
                do throws(KeyError) {
                    let mac = try device.originMACKey(for: name.keybag).tag(of: message(verdict))
                    return OriginMark(verdict: verdict, key: .device, generation: 0, mac: mac)
                } catch {
                    throw .cryptography(error)
                }
            }
        } catch {
            return .unverified  // no device key here: the file can still be made, and says so
        }
    }
}

extension KeySession {
    /// What can be said now about who made the file, where nothing else is asked.
    package static func verdict(of head: Head, _ keybag: Keybag) throws(DataProtectionError) -> OriginMark.Verdict {
        var session = KeySession(keybag)
        return try session.verdict(of: head)
    }

    /// Whether keyring calls are refused to this process (EPERM, ENOSYS), as the seccomp profiles of containers do. New files of classes B and D
    /// can be made all the same: the device key vouches for them, as before the first unlock.
    private var isKeyringRefused: Bool {
        do throws(Errno) { _ = try keybag.ring.firstUnlock.find() } catch {
            return error == .notPermitted || error == .noFunction
        }
        return false
    }
}
