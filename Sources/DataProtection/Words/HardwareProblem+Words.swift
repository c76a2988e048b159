import Keybags
import SystemPackage

extension HardwareProblem {
    /// - Parameter keybag: quoted.
    func message(_ keybag: String) -> String {
        switch self {
        case .libraryMissing(let name):
            "keybag \(keybag) needs the TPM, and the library \(name) is not installed; no passcode was tried"
        case .deviceMissing(let path):
            "keybag \(keybag) needs the TPM, and \(quoted(path)) is not there; no passcode was tried"
        case .permissionDenied(let path):
            "keybag \(keybag) needs the TPM, and you may not open \(quoted(path)); no passcode was tried"
        case .failed(let command, let code):
            "the TPM failed for keybag \(keybag): \(command), code 0x\(String(code, radix: 16))"
        case .lockedOut(let time):
            "the TPM accepts no passcode for \(keybag) now, not even the right one: too many were wrong, here or in another program"
                + (time.map { "; it allows the next one in \(spoken($0)) or less" } ?? "")
        case .otherModule:
            "keybag \(keybag) is bound to another TPM, or this one was cleared; no passcode was tried"
        case .secretMissing:
            "the TPM no longer has the secret of keybag \(keybag): it was destroyed; no passcode was tried"
        case .olderKeybag:
            "keybag \(keybag) is older than its secret in the TPM: an older copy was put back; no passcode was tried"
        case .altered:
            "the TPM accepted the passcode, but keybag \(keybag) does not open: it was altered, or an older copy was put back"
        case .noRoom: "the TPM has no room for a secret of keybag \(keybag)"
        case .ownerHasPassword:
            "the owner hierarchy of the TPM has a password, which keybag \(keybag) needs now"
        case .alreadyBound: "keybag \(keybag) is bound to a TPM already"
        case .notBound: "keybag \(keybag) is not bound to a TPM"
        }
    }

    /// - Parameters:
    ///   - option: `` --keybag DIR``, or nothing.
    ///   - recovery: what to type if the keybag has a recovery code.
    func hint(_ option: String, orRecovery recovery: String?) -> String? {
        switch self {
        case .libraryMissing:
            "install it: sudo apt install libtss2-esys-3.0.2-0 libtss2-tctildr0 libtss2-tcti-device0; or the package tpm2-tss"
        case .deviceMissing: recovery.map { "switch the TPM on in the firmware's settings; or, \($0)" }
        case .permissionDenied(let path):
            "join the group of the device, then log in again: sudo usermod -aG \"$(stat -c %G \(quoted(path)))\" \"$USER\""
        case .failed(_, let code): "what it means: tpm2_rc_decode 0x\(String(code, radix: 16))"
        case .lockedOut, .otherModule, .secretMissing: recovery
        case .olderKeybag, .altered:
            "put the newest keybag back" + (recovery.map { "; or, \($0)" } ?? "")
        case .noRoom:
            "see what takes the room: tpm2_getcap handles-nv-index; or release the keybag first: protectfs tpm remove\(option)"
        case .ownerHasPassword:
            "run the command at a terminal, which asks for it if the TPM has a storage root key; or remove it: tpm2_changeauth -c owner -p PASSWORD"
        case .alreadyBound: "to bind it anew, release it first: protectfs tpm remove\(option)"
        case .notBound: "bind it: protectfs tpm enroll\(option)"
        }
    }
}
