import ProtectionFormat
import SystemPackage

/// What every conversion asks before it takes a file for plaintext: `protect`, an upgrade, and Foundation's attributes.
extension ConversionSource {
    /// Whether it is a protected file, intact or not.
    ///
    /// Fewer bytes than the magic has hold nothing of one, and are plaintext here: FORMAT.md §3.7 lets only readers refuse them.
    func isProtected() throws(DataProtectionError) -> Bool {
        guard try file.length() >= UInt64(Prefix.magic.count) else { return false }
        return try file.isOneOfOurs()
    }

    /// - Throws: `mangled`: it was a protected file, and would be of no use to anybody inside of another one.
    func requireConvertible() throws(DataProtectionError) {
        try file.requireUnmangled()
    }
}
