import DurableFiles
package import ProtectionKeys
import SystemPackage
package import TrustedModule

/// Hardware that keeps the secret which a passcode needs beside itself. FORMAT.md §2.21. The TPM is one source. A token (FIDO2, class 2) could be
/// another. The tests have one that fails at every step.
package protocol HardwareSecretSource: Sendable {
    /// A handle where a secret can be put.
    func freeHandle() throws(HardwareRefusal) -> UInt32
    /// Puts a secret there.
    ///
    /// - Parameter root: what the hardware must be, if that is known: the root key of the secret that this one replaces.
    func put(
        _ secret: borrowing HardwareSecret, at handle: UInt32, label: [UInt8], authorization: borrowing SecretBytes,
        root: [UInt8]?
    ) throws(HardwareRefusal) -> TrustedModule.Index
    /// Reads a secret. A wrong value counts in the hardware.
    ///
    /// - Parameter prefix: of the labels of all secrets of this keybag: tells an older keybag from a secret that was destroyed.
    func secret(
        of index: TrustedModule.Index, labelsWithPrefix prefix: [UInt8], authorization: borrowing SecretBytes
    ) throws(HardwareRefusal) -> HardwareSecret
    /// Makes sure that the secret is there, as far as that shows without its value. Nothing is counted.
    func requirePresent(
        _ index: TrustedModule.Index, labelsWithPrefix prefix: [UInt8]
    ) throws(HardwareRefusal)
    /// Destroys the secret with this label. Does nothing if it is not there.
    ///
    /// - Parameter root: as for ``put(_:at:label:authorization:root:)``.
    func destroy(_ handle: UInt32, label: [UInt8], root: [UInt8]?) throws(HardwareRefusal)
    /// What the hardware says of itself.
    func facts() throws(HardwareRefusal) -> HardwareFacts
    /// Whether its owner has a password that somebody could give now, and that lets secrets be put there and destroyed.
    ///
    /// - Parameter root: as for ``put(_:at:label:authorization:root:)``.
    func asksOwner(root: [UInt8]?) throws(HardwareRefusal) -> Bool
    /// Tries it, and uses it until the process ends if it is right. Of more than 64 bytes none is.
    ///
    /// - Returns: whether it is right.
    func accepts(ownersPassword password: consuming SecretBytes, root: [UInt8]?) throws(HardwareRefusal) -> Bool
    /// Whether a password of the owner was accepted.
    var knowsOwner: Bool { get }
}

/// Why hardware gives no secret.
package enum HardwareRefusal: Error, Hashable, Sendable {
    /// The passcode is wrong, and the hardware has counted it.
    case wrongPasscode
    /// No passcode was tried, or it was right.
    case problem(HardwareProblem)
}

/// What hardware says of itself, without being asked for a secret.
package struct HardwareFacts: Hashable, Sendable {
    /// The maker, such as `INTC`; may be empty.
    package let maker: String
    /// Whether it is software, of a hypervisor for example.
    package let isVirtual: Bool
    /// Wrong passcodes that it still accepts, of `maximumTries`.
    package let triesLeft: Int
    package let maximumTries: Int
    /// When it forgets one wrong passcode; nil: it forgets none.
    package let oneTryAfter: Duration?
    package let isLockedOut: Bool
    package let ownerHasPassword: Bool
    /// Whether a password guards the count.
    package let lockoutHasPassword: Bool

    package init(
        maker: String, isVirtual: Bool, triesLeft: Int, maximumTries: Int, oneTryAfter: Duration?, isLockedOut: Bool,
        ownerHasPassword: Bool, lockoutHasPassword: Bool
    ) {
        self.maker = maker
        self.isVirtual = isVirtual
        self.triesLeft = triesLeft
        self.maximumTries = maximumTries
        self.oneTryAfter = oneTryAfter
        self.isLockedOut = isLockedOut
        self.ownerHasPassword = ownerHasPassword
        self.lockoutHasPassword = lockoutHasPassword
    }

    init(_ facts: ModuleFacts) {
        self.init(
            maker: facts.manufacturer, isVirtual: facts.isVirtual, triesLeft: Int(facts.triesLeft),
            maximumTries: Int(facts.maximumTries),
            oneTryAfter: facts.secondsForOneTry == 0 ? nil : .seconds(facts.secondsForOneTry),
            isLockedOut: facts.isLockedOut, ownerHasPassword: facts.ownerHasPassword,
            lockoutHasPassword: facts.lockoutHasPassword)
    }
}

extension TrustedModule: HardwareSecretSource {
    package func put(
        _ secret: borrowing HardwareSecret, at handle: UInt32, label: [UInt8], authorization: borrowing SecretBytes,
        root: [UInt8]?
    ) throws(HardwareRefusal) -> Index {
        do throws(TrustedModuleError) {
            return try secret.withSecret { secret throws(TrustedModuleError) in
                try define(handle, label: label, secret: secret, authorization: authorization, root: root)
            }
        } catch { throw refusal(error) }
    }

    package func secret(
        of index: Index, labelsWithPrefix prefix: [UInt8], authorization: borrowing SecretBytes
    ) throws(HardwareRefusal) -> HardwareSecret {
        let bytes: SecretBytes
        do throws(TrustedModuleError) { bytes = try secret(of: index, authorization: authorization) } catch {
            throw refusal(error, labelsWithPrefix: prefix)
        }
        do throws(KeyError) { return try HardwareSecret(secret: bytes) } catch {
            throw .problem(.failed(command: "NV_Read", code: 0))
        }
    }

    package func requirePresent(
        _ index: Index, labelsWithPrefix prefix: [UInt8]
    ) throws(HardwareRefusal) {
        do throws(TrustedModuleError) { try requireIndex(index) } catch {
            throw refusal(error, labelsWithPrefix: prefix)
        }
    }

    private func refusal(_ error: TrustedModuleError, labelsWithPrefix prefix: [UInt8]) -> HardwareRefusal {
        guard error == .indexMissing || error == .indexDiffers else { return refusal(error) }
        // The same TPM. Every change of the passcode makes a new secret before it destroys the old one.
        let labels: [[UInt8]]
        do throws(TrustedModuleError) { labels = try self.labels() } catch { return refusal(error) }
        return .problem(labels.contains { $0.starts(with: prefix) } ? .olderKeybag : .secretMissing)
    }

    package func destroy(_ handle: UInt32, label: [UInt8], root: [UInt8]?) throws(HardwareRefusal) {
        do throws(TrustedModuleError) { try undefine(handle, label: label, root: root) } catch { throw refusal(error) }
    }

    package func freeHandle() throws(HardwareRefusal) -> UInt32 {
        do throws(TrustedModuleError) { return try unusedHandle() } catch { throw refusal(error) }
    }

    package func facts() throws(HardwareRefusal) -> HardwareFacts {
        do throws(TrustedModuleError) { return HardwareFacts(try moduleFacts()) } catch { throw refusal(error) }
    }

    package func asksOwner(root: [UInt8]?) throws(HardwareRefusal) -> Bool {
        do throws(TrustedModuleError) { return try wantsOwnerPassword(root: root) } catch { throw refusal(error) }
    }

    package func accepts(
        ownersPassword password: consuming SecretBytes, root: [UInt8]?
    ) throws(HardwareRefusal) -> Bool {
        do throws(TrustedModuleError) { return try take(ownerPassword: password, root: root) } catch {
            throw refusal(error)
        }
    }

    private func refusal(_ error: TrustedModuleError) -> HardwareRefusal {
        switch error {
        case .wrongAuthorization: .wrongPasscode
        case .libraryMissing(let name): .problem(.libraryMissing(name))
        case .deviceMissing(let path): .problem(.deviceMissing(FilePath(path)))
        case .permissionDenied(let path): .problem(.permissionDenied(FilePath(path)))
        case .lockedOut:
            // It says so and no more; the interval is a fact that everybody may read.
            .problem(
                .lockedOut(oneTryAfter: (try? moduleFacts()).map { .seconds($0.secondsForOneTry) }))
        case .otherModule: .problem(.otherModule)
        case .indexMissing, .indexDiffers: .problem(.secretMissing)
        case .noRoom: .problem(.noRoom)
        case .ownerHasPassword: .problem(.ownerHasPassword)
        case .failed(let command, let code): .problem(.failed(command: command, code: code))
        }
    }
}
