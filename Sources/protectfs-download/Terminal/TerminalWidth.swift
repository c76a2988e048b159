/// How many columns text takes on a terminal, as far as its characters tell: Unicode Standard Annex #11.
extension String {
    var columns: Int { reduce(0) { $0 + $1.columns } }

    /// As much of its beginning as there is room for, `mark` included where something is missing.
    func fitted(to room: Int, mark: String = "") -> String {
        if columns <= room { return self }
        var (text, left) = ("", room - mark.columns)
        for character in self {
            left -= character.columns
            if left < 0 { break }
            text.append(character)
        }
        return (text + mark).columns <= room ? text + mark : ""
    }
}

extension Character {
    fileprivate var columns: Int { unicodeScalars.map(\.columns).max() ?? 0 }
}

extension Unicode.Scalar {
    fileprivate var columns: Int {
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: break
        }
        switch value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x20000...0x3FFFD:
            return 2
        default: return properties.isEmojiPresentation ? 2 : 1
        }
    }
}
