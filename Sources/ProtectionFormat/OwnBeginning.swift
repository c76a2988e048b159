/// How files begin in which protectfs keeps in clear what it takes to unlock, or to bring a keybag or a backup back.
package enum OwnBeginning {
    /// So many bytes of a file are enough.
    package static let length = 2048

    private static let magics = [KeybagCopy.magic, AttemptRecord.magic, TransitionRecord.magic, BackupKeybag.magic]

    /// Whether a file that begins like this is one of them. In an export the explanation comes first.
    package static func isOne(_ start: some Collection<UInt8>) -> Bool {
        if magics.contains(where: { start.starts(with: $0) }) { return true }
        let mark = Array("\n\(RecoveryExport.begin)".utf8)
        guard let first = mark.dropFirst().first, start.contains(first) else { return false }
        let bytes = [UInt8(ascii: "\n")] + start
        return bytes.indices.contains { bytes[$0...].starts(with: mark) }
    }
}
