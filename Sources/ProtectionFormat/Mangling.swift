import ProtectionKeys

/// How another program changed the beginning of a protected file, so that the file no longer looks like one.
///
/// Editors and transfers that take the file for text do this. Only bytes that are the same in every file of format 1 are looked for:
/// FORMAT.md §3.7, *Mangled*.
public enum Mangling: Hashable, Sendable {
    /// Some of the first 24 bytes were replaced. All other bytes of the head are in their places.
    case overwritten
    /// So many of the first bytes are missing: at most 24.
    case beginningMissing(bytes: Int)
    /// Bytes were inserted or removed throughout, as when line ends or the character encoding are converted.
    case converted

    /// The magic and the 16 bytes behind it, up to the file id.
    private static let constantLength = 24
    private static let markOffset = Prefix.magic.count
    /// The end of the prefix, which is zero.
    private static let zeros = 40..<Prefix.length
    private static let farthestMark = 16

    /// Nil if nothing shows that these bytes were the beginning of a protected file.
    ///
    /// - Parameter start: the first 4,096 bytes of a file that is not one of ours (FORMAT.md §3.7), or fewer if it
    ///   is shorter.
    public init?(in start: [UInt8]) throws(KeyError) {
        if let found = Self.byMark(start) {
            self = found
        } else if let missing = try Self.missingByCheck(start) {
            self = missing == 0 ? .overwritten : .beginningMissing(bytes: missing)
        } else {
            return nil
        }
    }

    /// What every file of format 1 begins with: one row for each chunk size.
    private static let constants: [[UInt8]] = [ChunkLayout.small, .large].map { layout in
        let id = try! FileID(bytes: [UInt8](repeating: 0, count: 16))  // 16 bytes are an id
        return Array(Prefix(fileID: id, layout: layout).encoded.prefix(constantLength))
    }

    /// The 16 bytes behind the magic are ASCII without a line end: a conversion moves them and leaves them whole.
    private static func byMark(_ start: [UInt8]) -> Mangling? {
        let marks = constants.map { $0[markOffset...] }
        let places = 0...min(farthestMark, start.count)
        guard let place = places.first(where: { place in marks.contains { start[place...].starts(with: $0) } }),
            hasZeros(behindIDAt: place + constantLength - markOffset, start)
        else { return nil }
        let missing = markOffset - place
        if missing == 0 { return .overwritten }
        return missing > 0 && start[..<place] == Prefix.magic[missing...]
            ? .beginningMissing(bytes: missing) : .converted
    }

    /// A conversion may have made the 16 bytes of the id shorter, or three times as long.
    private static func hasZeros(behindIDAt offset: Int, _ start: [UInt8]) -> Bool {
        var count = 0
        for byte in start.dropFirst(offset).prefix(3 * 16 + zeros.count) {
            count = byte == 0 ? count + 1 : 0
            if count == zeros.count { return true }
        }
        return false
    }

    /// How many bytes must be put back at the beginning for the check of head 0 to be good, the constant ones put right; nil: it never is.
    private static func missingByCheck(_ start: [UInt8]) throws(KeyError) -> Int? {
        for missing in 0...constantLength {
            let kind = Prefix.length + 8 - missing
            guard start.count >= Head.length - missing,
                start[zeros.lowerBound - missing..<zeros.upperBound - missing].allSatisfy({ $0 == 0 }),
                // A class and an algorithm, so that few files need a digest.
                (1...4).contains(start[kind]), (1...2).contains(start[kind + 1])
            else { continue }
            for constant in constants {
                let whole = constant + start[(constantLength - missing)...]
                if try Head.isGood(Array(whole.prefix(Head.length))) { return missing }
            }
        }
        return nil
    }
}
