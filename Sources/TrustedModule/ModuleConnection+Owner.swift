import CTSS
internal import ProtectionKeys

extension ModuleConnection {
    /// Whether the TPM accepts the owner's authorization. Changes nothing: an index of so many bytes is refused, but only after a wrong password was.
    func acceptsOwner() throws(TrustedModuleError) -> Bool {
        do throws(TrustedModuleError) {
            let value = SecretBytes(copyOf: [UInt8](repeating: 1, count: TrustedModule.secretLength))
            let label = [UInt8](repeating: 0, count: TrustedModule.labelLength)
            let index = try define(
                TrustedModule.handles.upperBound - 1, label: label, authorization: value, byteCount: .max)
            try undefine(index)
        } catch .ownerHasPassword {
            return false
        } catch .wrongAuthorization {
            return false
        } catch .noRoom {
        } catch .failed(_, let code) where code >> 16 == 0 || code >> 16 == 11 {
            // About a parameter, TPM_RC_NV_SIZE, TPM_RC_NV_DEFINED: what is found after the authorization.
            guard code & 0xC0 == 0xC0 || [0x147, 0x14C].contains(code & 0xFFF) else {
                throw .failed(command: "NV_DefineSpace", code: code)
            }
        }
        return true
    }
}
