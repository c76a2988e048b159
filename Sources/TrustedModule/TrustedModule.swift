import CTSS
package import ProtectionKeys

/// A TPM 2.0 that keeps secrets of 32 bytes. Reading one takes an authorization value of 32 bytes. This module knows no keybags.
///
/// The secret is in an NV index. The TPM counts wrong values, and after too many of them refuses all values. Secret and value travel encrypted: the
/// session is salted to the storage root key, whose Name is compared first. TPM 2.0 Part 1, §§17, 19, 21, 35.
package struct TrustedModule: Sendable {
    let place: ModulePlace
    let owner: OwnerPassword

    /// The TPM of this machine.
    package static var machine: TrustedModule { TrustedModule(place: .ofMachine, owner: .ofMachine) }

    init(place: ModulePlace, owner: OwnerPassword = OwnerPassword()) { (self.place, self.owner) = (place, owner) }

    /// An index and what proves that it is the one that was defined.
    package struct Index: Hashable, Sendable {
        /// TPM handle, one of ``TrustedModule/handles``.
        package let handle: UInt32
        /// SHA-256 of the public area of the storage root key: 32 bytes, its Name without the algorithm.
        package let root: [UInt8]
        /// SHA-256 of the public area of the index: 32 bytes, its Name without the algorithm.
        package let name: [UInt8]

        package init(handle: UInt32, root: [UInt8], name: [UInt8]) {
            self.handle = handle
            self.root = root
            self.name = name
        }
    }

    /// Where an index can be: a part of the owner's handles (TCG Registry of Reserved TPM 2.0 Handles) that no other program is known to use.
    package static let handles: Range<UInt32> = 0x018D_0000..<0x018E_0000
    /// Of the secret and of the authorization value.
    package static let secretLength = 32
    /// Of a label: it has the place of a policy, so it has the length of SHA-256.
    package static let labelLength = 32

    /// A handle in ``handles`` that is free now.
    package func unusedHandle() throws(TrustedModuleError) -> UInt32 {
        let taken = Set(try usedHandles())
        for _ in 0..<64 {
            let handle = UInt32.random(in: Self.handles)
            if !taken.contains(handle) { return handle }
        }
        throw .noRoom
    }

    /// The handles in ``handles`` that are in use. Needs no authorization.
    package func usedHandles() throws(TrustedModuleError) -> [UInt32] {
        let connection = try ModuleConnection(to: place)
        return try connection.usedHandles(in: Self.handles)
    }

    /// Defines an index and writes the secret to it.
    ///
    /// - Parameters:
    ///   - handle: free, see ``unusedHandle()``.
    ///   - label: 32 bytes that only this index has. They are public, and part of its Name: an index defined anew by somebody else has another.
    ///   - secret: 32 bytes.
    ///   - authorization: 32 bytes, the last one not 0: a TPM strips zeros from the end.
    ///   - root: what the storage root key must be: ``Index/root`` of an earlier index; nil: any.
    /// - Throws: `noRoom`, `ownerHasPassword`, and what else ``TrustedModuleError`` has. An index that was defined and could not be written is gone.
    package func define(
        _ handle: UInt32, label: [UInt8], secret: borrowing SecretBytes, authorization: borrowing SecretBytes,
        root: [UInt8]? = nil
    ) throws(TrustedModuleError) -> Index {
        precondition(secret.count == Self.secretLength && authorization.count == Self.secretLength)
        precondition(label.count == Self.labelLength)
        let connection = try ModuleConnection(to: place)
        let root = try connection.openRoot(named: root)
        try connection.startSession()
        try authorizeOwner(of: connection)
        let index = try connection.define(handle, label: label, authorization: authorization)
        do throws(TrustedModuleError) {
            try connection.write(secret, to: index, authorization)
            return Index(handle: handle, root: root, name: try connection.name(of: index))
        } catch {
            try? connection.undefine(index)
            throw error
        }
    }

    /// Reads the secret of an index.
    ///
    /// - Throws: `wrongAuthorization`, which the TPM has counted; `lockedOut`; `otherModule`, `indexMissing`, `indexDiffers`: no value was sent.
    package func secret(
        of index: Index, authorization: borrowing SecretBytes
    ) throws(TrustedModuleError) -> SecretBytes {
        let connection = try ModuleConnection(to: place)
        _ = try connection.openRoot(named: index.root)
        let object = try connection.index(at: index.handle)
        guard try connection.name(of: object) == index.name else { throw .indexDiffers }
        try connection.startSession()
        return try connection.read(object, authorization)
    }

    /// Makes sure that an index is there. No value is sent, and no try is spent.
    ///
    /// - Throws: `otherModule`, `indexMissing`, `indexDiffers`.
    package func requireIndex(_ index: Index) throws(TrustedModuleError) {
        let connection = try ModuleConnection(to: place)
        do throws(TrustedModuleError) {
            guard try connection.name(of: connection.index(at: index.handle)) == index.name else { throw .indexDiffers }
        } catch {
            // Making a root key takes a TPM long: only to tell another TPM from an index that was destroyed.
            if error == .indexMissing || error == .indexDiffers { _ = try connection.openRoot(named: index.root) }
            throw error
        }
    }

    /// The label of the index at a handle; nil if no index is there.
    package func label(at handle: UInt32) throws(TrustedModuleError) -> [UInt8]? {
        let connection = try ModuleConnection(to: place)
        do throws(TrustedModuleError) {
            return try connection.label(of: connection.index(at: handle))
        } catch .indexMissing {
            return nil
        }
    }

    /// The labels of all indices in ``handles``.
    package func labels() throws(TrustedModuleError) -> [[UInt8]] {
        let connection = try ModuleConnection(to: place)
        var labels: [[UInt8]] = []
        for handle in try connection.usedHandles(in: Self.handles) {
            labels.append(try connection.label(of: connection.index(at: handle)))
        }
        return labels
    }

    /// Destroys the index at a handle, if it has this label. The secret is gone then, also from an index that is defined there anew.
    ///
    /// - Parameter root: as for ``define(_:label:secret:authorization:root:)``.
    /// - Returns: whether there was such an index.
    /// - Throws: `ownerHasPassword` and others.
    @discardableResult
    package func undefine(
        _ handle: UInt32, label: [UInt8], root: [UInt8]? = nil
    ) throws(TrustedModuleError) -> Bool {
        let connection = try ModuleConnection(to: place)
        do throws(TrustedModuleError) {
            let index = try connection.index(at: handle)
            guard try connection.label(of: index) == label else { return false }
            if owner.isKnown {
                _ = try connection.openRoot(named: root)
                try connection.startSession()
                try authorizeOwner(of: connection)
            }
            try connection.undefine(index)
            return true
        } catch .indexMissing {
            return false
        }
    }

    /// What the TPM says of itself. Needs no authorization, and costs no try.
    package func moduleFacts() throws(TrustedModuleError) -> ModuleFacts {
        try ModuleConnection(to: place).facts()
    }

    // MARK: the owner's password

    /// Whether it was given, and is right.
    package var knowsOwner: Bool { owner.isKnown }

    /// Whether the owner hierarchy has a password that is not known yet, and there is a storage root key at 0x81000001. Without one no password would help:
    /// to make the key takes it in the clear, for each reading too.
    ///
    /// - Parameter root: what the storage root key must be: ``Index/root``; nil: any.
    package func wantsOwnerPassword(root: [UInt8]?) throws(TrustedModuleError) -> Bool {
        guard !owner.isKnown else { return false }
        let connection = try ModuleConnection(to: place)
        guard try connection.facts().ownerHasPassword else { return false }
        return try connection.hasPersistentRoot(named: root)
    }

    /// Tries the owner's password, and uses it from now on if it is right. A wrong one counts nowhere.
    ///
    /// - Parameters:
    ///   - password: 1 to 64 bytes.
    ///   - root: as for ``wantsOwnerPassword(root:)``.
    /// - Returns: whether it is right.
    package func take(
        ownerPassword password: consuming SecretBytes, root: [UInt8]?
    ) throws(TrustedModuleError) -> Bool {
        guard (1...OwnerPassword.maximumLength).contains(password.count) else { return false }
        let connection = try ModuleConnection(to: place)
        _ = try connection.openRoot(named: root)
        try connection.startSession()
        try connection.authorizeOwner(password)
        guard try connection.acceptsOwner() else { return false }
        owner.keep(password)
        return true
    }

    private func authorizeOwner(of connection: ModuleConnection) throws(TrustedModuleError) {
        let result = owner.lend { password -> Result<Void, TrustedModuleError> in
            do throws(TrustedModuleError) { return .success(try connection.authorizeOwner(password)) } catch {
                return .failure(error)
            }
        }
        try result?.get()
    }
}
