/// A class B file that a process has open, or a file whose plaintext it was given, as the process's file in `run/clients/` names
/// it. FORMAT.md §2.13.
///
/// For people: who has moved the file since does not matter to anybody else.
public enum OpenFileName {
    /// How many are named at most.
    public static let maximumCount = 16
    /// The bytes of one.
    public static let length = 256
    private static let longest = 254

    /// Where one lies in the file.
    public static func offset(of slot: Int) -> Int { ClientRecord.length + slot * length }

    /// The stored form.
    ///
    /// - Parameter path: absolute; of one with more than 254 bytes the end is stored. Empty: no file.
    public static func encode(_ path: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: UInt16(min(path.count, longest)))
        bytes += path.suffix(longest)
        bytes.pad(to: length)
        return bytes
    }

    /// All that a file names, in the order of their places. What makes no sense is left out.
    ///
    /// - Parameter file: the file from its beginning.
    public static func decodeAll(_ file: [UInt8]) -> [[UInt8]] {
        (0..<maximumCount).compactMap { slot in
            let start = offset(of: slot)
            guard start + length <= file.count else { return nil }
            let count = Int(file[start]) | Int(file[start + 1]) << 8
            guard (1...longest).contains(count) else { return nil }
            return Array(file[(start + 2)..<(start + 2 + count)])
        }
    }
}
