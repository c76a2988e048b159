import DurableFiles
import Keybags
package import SystemPackage

/// A path as a shell reads it back, in single quotes; with `$'…'` where it holds what a terminal must not get.
package func quoted(_ path: FilePath) -> String { quoted(StoredPlace.shown(path).bytes) }

/// The same for text that came from a file.
package func quoted(_ text: String) -> String { quoted(Array(text.utf8)) }

private func quoted(_ bytes: [UInt8]) -> String {
    guard hasUnprintable(bytes) else {
        let parts = String(decoding: bytes, as: UTF8.self).split(separator: "'", omittingEmptySubsequences: false)
        return "'" + parts.joined(separator: "'\\''") + "'"
    }
    var text = "$'"
    for byte in bytes {
        switch byte {
        case UInt8(ascii: "'"), UInt8(ascii: "\\"): text += "\\" + String(UnicodeScalar(byte))
        case UInt8(ascii: "\n"): text += "\\n"
        case UInt8(ascii: "\t"): text += "\\t"
        case 0x20..<0x7F: text += String(UnicodeScalar(byte))
        default: text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
    }
    return text + "'"
}

/// Text that others have a say in, with what a terminal must not get written as a number.
package func printable(_ text: String) -> String {
    guard hasUnprintable(Array(text.utf8)) else { return text }
    return text.unicodeScalars.map { scalar in
        isUnprintable(scalar) ? "\\u{\(String(scalar.value, radix: 16))}" : String(scalar)
    }.joined()
}

/// Whether there are control characters, marks that turn the direction of writing, or bytes that are not UTF-8.
package func hasUnprintable(_ bytes: [UInt8]) -> Bool {
    if bytes.allSatisfy({ 0x20..<0x7F ~= $0 }) { return false }
    guard let text = String(validating: bytes, as: UTF8.self) else { return true }
    return text.unicodeScalars.contains(where: isUnprintable)
}

/// Whether a terminal obeys it instead of showing it: control characters, ends of lines, and all twelve characters of Unicode's property
/// Bidi_Control.
package func isUnprintable(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
}
