import DurableFiles
import ProtectionFormat
import ProtectionKeys
package import SystemPackage
internal import TrustedModule

/// The secrets in hardware of a keybag that is going to be erased. FORMAT.md §2.10.
///
/// They are noted before the copies are destroyed, and destroyed after: an erasure that is refused leaves a keybag that opens, and one that is
/// killed is finished by the next one.
package struct HardwareErasure: ~Copyable {
    private let hardware: any HardwareSecretSource
    private let directory: FilePath
    /// What the labels of the secrets begin with: the note may name those of other keybags.
    private var prefixes: [[UInt8]] = []
    /// nil: there is nothing to destroy.
    private var note: HardwareNote?
    /// What the hardware must be, if a copy says it.
    private var root: [UInt8]?

    /// Notes the secrets that the copies name, and those of a change that was killed.
    ///
    /// - Parameters:
    ///   - keybags: all names that the keybag may have.
    ///   - hardware: nil: this machine's TPM.
    /// - Throws: `busy` if such a change is under way; `system`.
    package init(
        of directory: FilePath, _ keybags: [KeybagUUID], hardware: (any HardwareSecretSource)? = nil
    ) throws(DataProtectionError) {
        self.hardware = hardware ?? TrustedModule.machine
        self.directory = directory
        prefixes = try withKeys { () throws(KeyError) in
            try keybags.map { keybag throws(KeyError) in try HardwareShare.labelPrefix(of: keybag) }
        }
        let file = KeybagFile(directory: directory)
        var lines: [HardwareNote.Line] = []
        for name in KeybagFile.names {
            guard let bytes = try file.read(name), let copy = try? KeybagCopy(decoding: bytes) else { continue }
            lines += try copy.hardwareLines()
            root = root ?? copy.hardwareShares.first?.root
        }
        guard !lines.isEmpty || OwnDirectory.exists(directory.appending(HardwareNote.name)) else { return }
        note = try HardwareNote(in: directory)
        try note?.add(lines)
    }

    /// Destroys them. What cannot be destroyed opens nothing without a copy of the keybag; it is a warning.
    package consuming func perform(_ warn: (ProtectionWarning) -> Void) throws(DataProtectionError) {
        guard let note = note.take() else { return }
        for line in note.lines where prefixes.contains(where: { line.label.starts(with: $0) }) {
            do throws(HardwareRefusal) { try hardware.destroy(line.handle, label: line.label, root: root) } catch {
                let problem =
                    if case .problem(let problem) = error { problem } else {
                        HardwareProblem.failed(command: "NV_UndefineSpace", code: 0x98E)
                    }
                let failure = DataProtectionError.because(KeybagFailure.hardware(keybag: directory, problem))
                warn(.hardwareSecretNotErased(handle: line.handle, failure))
            }
        }
        try note.remove()
    }
}
