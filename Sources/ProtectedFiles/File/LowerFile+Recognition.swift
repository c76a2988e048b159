import DurableFiles
import ProtectionFormat
import ProtectionKeys

extension LowerFile {
    /// Whether this is a protected file, intact or not.
    package func isOneOfOurs() throws(DataProtectionError) -> Bool {
        let start = try bytes(at: 0, count: Head.length)
        let second = try bytes(at: UInt64(Head.length), count: 8)
        return try withKeys { () throws(KeyError) in try Head.looksLikeOurs(start: start, second: second) }
    }

    /// - Throws: `notProtected`; `mangled` if another program has changed the beginning of a protected file.
    package func requireOneOfOurs() throws(DataProtectionError) {
        guard try !isOneOfOurs() else { return }
        try requireUnmangled()
        throw .notProtected(path)
    }

    /// - Throws: `mangled`: what looks like plaintext was a protected file.
    package func requireUnmangled() throws(DataProtectionError) {
        let start = try bytes(at: 0, count: Head.length)
        let mangling = try withKeys { () throws(KeyError) in try Mangling(in: start) }
        if let mangling { throw .because(FileFailure.mangled(path, mangling)) }
    }

    /// - Throws: `ownData` if the file is part of a keybag, a recovery export, or the keybag of a backup.
    package func requireForeign() throws(DataProtectionError) {
        if OwnBeginning.isOne(try bytes(at: 0, count: OwnBeginning.length)) {
            throw .because(FileFailure.ownData(path))
        }
    }
}
