/// Why the TPM did not do what it was asked for.
package enum TrustedModuleError: Error, Hashable, Sendable {
    /// A shared object of the TPM Software Stack cannot be loaded.
    case libraryMissing(String)
    /// The machine has no TPM 2.0, or its driver is not loaded.
    case deviceMissing(path: String)
    /// This process may not open the device.
    case permissionDenied(path: String)
    /// The authorization value is wrong. The TPM has counted the try. TPM_RC_AUTH_FAIL.
    case wrongAuthorization
    /// The TPM accepts no authorization values now, right ones included: too many were wrong. TPM_RC_LOCKOUT.
    case lockedOut
    /// The storage root key has another Name: another TPM, or this one was cleared. No authorization value was sent.
    case otherModule
    /// There is no such index.
    case indexMissing
    /// The index has another Name: somebody else's, or another attribute. No authorization value was sent.
    case indexDiffers
    /// The NV memory is full. TPM_RC_NV_SPACE.
    case noRoom
    /// The owner hierarchy has a password, and this needs it.
    case ownerHasPassword
    /// A command failed otherwise. `code` is the TSS2_RC: `tpm2_rc_decode` explains it.
    case failed(command: String, code: UInt32)
}

extension TrustedModuleError {
    /// What a TSS2_RC means. TPM 2.0 Part 2, §6.6; TSS 2.0 Overview, §3.6.
    init(_ command: String, _ code: UInt32) {
        let layer = code >> 16
        // The TPM itself, or the kernel's resource manager in its place.
        guard layer == 0 || layer == 11 else {
            self = .failed(command: command, code: code)
            return
        }
        let isAboutOneField = code & 0x80 != 0  // then bits 6 and 8 to 11 number the handle, parameter or session
        switch isAboutOneField ? code & 0xBF : code & 0xFFF {
        case 0x8E: self = .wrongAuthorization  // TPM_RC_AUTH_FAIL
        case 0xA2: self = .ownerHasPassword  // TPM_RC_BAD_AUTH: no index of ours is without protection against guessing
        case 0x8B where code & 0x40 == 0: self = .indexMissing  // TPM_RC_HANDLE
        case 0x921: self = .lockedOut  // TPM_RC_LOCKOUT
        case 0x14B: self = .noRoom  // TPM_RC_NV_SPACE
        default: self = .failed(command: command, code: code)
        }
    }
}
