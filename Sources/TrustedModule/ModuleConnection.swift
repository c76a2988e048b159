import CTSS
internal import ProtectionKeys

/// The one door to the TPM Software Stack: a connection for a few commands. What it has loaded into the TPM goes when it goes.
///
/// The functions of the library are found by dlopen(3) when the first connection is made, so a machine without the library runs everything else.
final class ModuleConnection {
    let library: tss_library
    private(set) var context: UnsafeMutableRawPointer?
    private var transport: UnsafeMutableRawPointer?
    /// The storage root key.
    private var root = none
    private var isRootTransient = false
    private var session = none
    /// Whose authorization values the library's memory has.
    private var authorized: Set<tss_object> = []

    static let none = tss_object(TSS_NONE)
    private static let owner = tss_object(TSS_RH_OWNER)
    /// TPM_ALG_SHA256.
    private static let sha256: UInt16 = 0x000B

    /// - Throws: `libraryMissing`, `deviceMissing`, `permissionDenied`, `failed`.
    init(to place: ModulePlace) throws(TrustedModuleError) {
        try place.requireReachable()
        var library = tss_library()
        // Swift finds the arguments beside the environment, which loading replaces: they must have been found before.
        _ = CommandLine.argc
        if let missing = protectfs_tss_load(&library) { throw .libraryMissing(String(cString: missing)) }
        self.library = library
        try check("TctiLdr_Initialize", library.TctiLdr_Initialize(place.name, &transport))
        do throws(TrustedModuleError) {
            try check("Initialize", library.Initialize(&context, transport, nil))
        } catch {
            library.TctiLdr_Finalize(&transport)
            throw error
        }
    }

    deinit {
        forgetAuthorization()
        if session != Self.none { _ = library.FlushContext(context, session) }
        if isRootTransient { _ = library.FlushContext(context, root) }
        library.Finalize(&context)
        library.TctiLdr_Finalize(&transport)
        SecretBytes.scrubStack()
    }

    func check(_ command: String, _ code: tss_rc) throws(TrustedModuleError) {
        guard code == 0 else { throw TrustedModuleError(command, code) }
    }

    // MARK: the storage root key and the session

    /// Opens the storage root key: that at 0x81000001 if it is one, otherwise one that is made for this connection.
    ///
    /// - Parameter name: what must be its Name; nil: any.
    /// - Returns: its Name, 32 bytes.
    /// - Throws: `otherModule` if none has that Name; `ownerHasPassword` if one would have to be made, and that takes a password. There is no session
    ///   yet that would hide it.
    func openRoot(named name: [UInt8]?) throws(TrustedModuleError) -> [UInt8] {
        if let found = try persistentRoot(isKnown: name != nil), name == nil || found.name == name {
            root = found.object
            return found.name
        }
        let made = try makeRoot()
        (root, isRootTransient) = (made, true)
        let own = try self.name(of: made)
        guard name == nil || own == name else { throw .otherModule }
        return own
    }

    /// Whether there is one that is not made for a connection.
    ///
    /// - Parameter name: as for ``openRoot(named:)``.
    func hasPersistentRoot(named name: [UInt8]?) throws(TrustedModuleError) -> Bool {
        guard let found = try persistentRoot(isKnown: name != nil) else { return false }
        return name == nil || found.name == name
    }

    /// - Parameter isKnown: whether its Name is going to be compared.
    private func persistentRoot(
        isKnown: Bool
    ) throws(TrustedModuleError) -> (object: tss_object, name: [UInt8])? {
        var object = Self.none
        // TCG TPM v2.0 Provisioning Guidance, §7.5.1: the storage root key.
        let code = library.TR_FromTPMPublic(context, 0x8100_0001, Self.none, Self.none, Self.none, &object)
        guard code == 0 else { return nil }
        var area: UnsafeMutablePointer<tss_public>?
        try check("ReadPublic", library.ReadPublic(context, object, Self.none, Self.none, Self.none, &area, nil, nil))
        defer { library.Free(area) }
        guard let area, area.pointee.name_algorithm == Self.sha256 else { return nil }
        // Restricted, decrypt: a storage key. And fixedTPM, fixedParent, sensitiveDataOrigin: nobody has imported it, and knows its private part.
        let wanted: UInt32 = isKnown ? 0x30000 : 0x30032
        guard area.pointee.attributes & wanted == wanted else { return nil }
        return (object, try name(of: object))
    }

    /// A primary key on P-256 from the owner's seed: the same each time, until the TPM is cleared. Not RSA, which takes a chip seconds.
    private func makeRoot() throws(TrustedModuleError) -> tss_object {
        var template = tss_public()
        template.type = 0x0023  // TPM_ALG_ECC
        template.name_algorithm = Self.sha256
        // fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, noDA, restricted, decrypt
        template.attributes = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 10 | 1 << 16 | 1 << 17
        template.cipher = Self.aes
        template.scheme = 0x0010  // TPM_ALG_NULL
        template.curve = 0x0003  // TPM_ECC_NIST_P256
        template.derivation = 0x0010
        var (sensitive, outside, registers) = (tss_sensitive(), tss_digest(), tss_pcr_selection())
        var object = Self.none
        try check(
            "CreatePrimary",
            library.CreatePrimary(
                context, Self.owner, tss_object(TSS_PASSWORD), Self.none, Self.none, &sensitive, &template,
                &outside, &registers, &object, nil, nil, nil, nil))
        return object
    }

    /// AES-128 in CFB mode.
    private static let aes = tss_cipher(algorithm: 0x0006, key_bits: 128, mode: 0x0043)

    /// An HMAC session salted to the storage root key, which encrypts the first parameter.
    func startSession() throws(TrustedModuleError) {
        var cipher = Self.aes
        try check(
            "StartAuthSession",
            library.StartAuthSession(
                context, root, Self.none, Self.none, Self.none, Self.none, nil, 0, &cipher, Self.sha256, &session))
    }

    private enum Encrypted: UInt8 {
        case nothing = 0
        case command = 0x20
        case response = 0x40
    }

    private func encrypt(_ what: Encrypted) throws(TrustedModuleError) {
        // The first bit: the session goes on.
        try check(
            "TRSess_SetAttributes", library.TRSess_SetAttributes(context, session, 1 | what.rawValue, 0xFF))
    }

    // MARK: indices

    /// The Name of an object or an index without its algorithm: 32 bytes.
    ///
    /// - Throws: `indexDiffers` if that is not SHA-256.
    func name(of object: tss_object) throws(TrustedModuleError) -> [UInt8] {
        var name: UnsafeMutablePointer<tss_name>?
        try check("TR_GetName", library.TR_GetName(context, object, &name))
        defer { library.Free(name) }
        let bytes = withUnsafeBytes(of: name!.pointee.bytes) { Array($0.prefix(34)) }
        guard name!.pointee.size == 34, bytes.starts(with: [0, 0x0B]) else { throw .indexDiffers }
        return Array(bytes.dropFirst(2))
    }

    /// - Throws: `indexMissing`.
    func index(at handle: UInt32) throws(TrustedModuleError) -> tss_object {
        var object = Self.none
        try check(
            "NV_ReadPublic", library.TR_FromTPMPublic(context, handle, Self.none, Self.none, Self.none, &object))
        return object
    }

    func label(of index: tss_object) throws(TrustedModuleError) -> [UInt8] {
        var area: UnsafeMutablePointer<tss_nv_public>?
        try check("NV_ReadPublic", library.NV_ReadPublic(context, index, Self.none, Self.none, Self.none, &area, nil))
        defer { library.Free(area) }
        let policy = area!.pointee.policy
        return withUnsafeBytes(of: policy.bytes) { Array($0.prefix(Int(policy.size))) }
    }

    func define(
        _ handle: UInt32, label: [UInt8], authorization: borrowing SecretBytes,
        byteCount: UInt16 = UInt16(TrustedModule.secretLength)
    ) throws(TrustedModuleError) -> tss_object {
        var area = tss_nv_public()
        area.index = handle
        area.name_algorithm = Self.sha256
        // AUTHWRITE, AUTHREAD. Neither the owner reads it, nor is it free from the count of wrong values (NO_DA). The policy has no use.
        area.attributes = 1 << 2 | 1 << 18
        area.policy.size = UInt16(label.count)
        withUnsafeMutableBytes(of: &area.policy.bytes) { $0.copyBytes(from: label) }
        area.data_size = byteCount
        var object = Self.none
        try encrypt(.command)
        let code = Self.lend(authorization) { authorization in
            library.NV_DefineSpace(
                context, Self.owner, session, Self.none, Self.none, authorization, &area, &object)
        }
        try check("NV_DefineSpace", code)
        return object
    }

    func write(
        _ secret: borrowing SecretBytes, to index: tss_object, _ authorization: borrowing SecretBytes
    ) throws(TrustedModuleError) {
        try authorize(index, authorization)
        try encrypt(.command)
        var data = SecretBytes(zeroed: MemoryLayout<tss_nv_data>.size)
        let code = data.withUnsafeMutableBytes { data in
            let data = data.bindMemory(to: tss_nv_data.self).baseAddress!
            data.pointee.size = UInt16(secret.count)
            withUnsafeMutableBytes(of: &data.pointee.bytes) { bytes in
                secret.withUnsafeBytes { bytes.copyMemory(from: $0) }
            }
            return library.NV_Write(context, index, index, session, Self.none, Self.none, data, 0)
        }
        try check("NV_Write", code)
    }

    func read(_ index: tss_object, _ authorization: borrowing SecretBytes) throws(TrustedModuleError) -> SecretBytes {
        try authorize(index, authorization)
        try encrypt(.response)
        var data: UnsafeMutablePointer<tss_nv_data>?
        let count = UInt16(TrustedModule.secretLength)
        try check(
            "NV_Read", library.NV_Read(context, index, index, session, Self.none, Self.none, count, 0, &data))
        guard let data else { throw .failed(command: "NV_Read", code: 0) }
        defer {
            SecretBytes.wipe(UnsafeMutableRawBufferPointer(start: data, count: MemoryLayout<tss_nv_data>.size))
            library.Free(data)
        }
        guard data.pointee.size == count else { throw .failed(command: "NV_Read", code: 0) }
        return withUnsafeBytes(of: &data.pointee.bytes) { bytes in
            SecretBytes(copyOf: UnsafeRawBufferPointer(rebasing: bytes[..<Int(count)]))
        }
    }

    func undefine(_ index: tss_object) throws(TrustedModuleError) {
        // Without a password of the owner, an empty one in the clear.
        let hasPassword = authorized.contains(Self.owner)
        if hasPassword { try encrypt(.nothing) }  // it has no parameter
        try check(
            "NV_UndefineSpace",
            library.NV_UndefineSpace(
                context, Self.owner, index, hasPassword ? session : tss_object(TSS_PASSWORD), Self.none, Self.none))
    }

    // MARK: authorization values

    private func authorize(
        _ object: tss_object, _ authorization: borrowing SecretBytes
    ) throws(TrustedModuleError) {
        authorized.insert(object)
        try check("TR_SetAuth", Self.lend(authorization) { library.TR_SetAuth(context, object, $0) })
    }

    /// From now on the owner authorizes with its password: what proves it goes over the bus, and the password does not. The session must have been
    /// started.
    func authorizeOwner(_ password: borrowing SecretBytes) throws(TrustedModuleError) {
        precondition(session != Self.none && password.count <= OwnerPassword.maximumLength)
        try authorize(Self.owner, password)
    }

    /// The library frees what it knows and wipes none of it. Its copies of the values are overwritten, and the buffer of commands, which had the
    /// secret, with a long answer.
    private func forgetAuthorization() {
        guard !authorized.isEmpty else { return }
        // No zeros: some versions strip them, and would overwrite less.
        var other = tss_digest()
        other.size = UInt16(OwnerPassword.maximumLength)
        withUnsafeMutableBytes(of: &other.bytes) { for index in $0.indices { $0[index] = 0xFF } }
        for object in authorized { _ = library.TR_SetAuth(context, object, &other) }
        // The session has another copy of the owner's password, until it is used again.
        if authorized.contains(Self.owner) { _ = try? acceptsOwner() }
        _ = try? properties(from: 0x100, count: 127)
    }

    /// Lends a value as the library takes it.
    private static func lend<R>(
        _ value: borrowing SecretBytes, _ body: (UnsafePointer<tss_digest>) -> R
    ) -> R {
        var digest = SecretBytes(zeroed: MemoryLayout<tss_digest>.size)
        return digest.withUnsafeMutableBytes { digest in
            let digest = digest.bindMemory(to: tss_digest.self).baseAddress!
            digest.pointee.size = UInt16(value.count)
            withUnsafeMutableBytes(of: &digest.pointee.bytes) { bytes in
                value.withUnsafeBytes { bytes.copyMemory(from: $0) }
            }
            return body(digest)
        }
    }
}
