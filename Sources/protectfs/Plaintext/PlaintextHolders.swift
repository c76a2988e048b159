import DataProtection

/// The notes by which a lock knows that a program was given plaintext: one for each keybag.
final class PlaintextHolders {
    private let program: String
    private var notes: [KeybagUUID: HeldPlaintext] = [:]

    /// - Parameter program: the program's name, as a lock prints it.
    init(program: String) { self.program = program }

    /// Notes a file, before its plaintext exists.
    ///
    /// - Throws: `system`: a lock would not know of it.
    func add(_ path: FilePath, of keybag: Keybag) throws(DataProtectionError) {
        let note =
            if let known = notes[keybag.uuid] { known } else { try HeldPlaintext(by: program, keybag: keybag) }
        notes[keybag.uuid] = note
        note.add(path)
    }

    /// Programs that are started from now on count, and so does the program that this process becomes.
    func passOn(from lowest: Int32) { for note in notes.values { note.passOn(from: lowest) } }
}
