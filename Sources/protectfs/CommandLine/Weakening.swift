import DataProtection

/// What is written in the place of a protected file.
enum Weakening {
    /// Refuses a class that was asked for and is weaker than that of the file at `path`.
    ///
    /// - Throws: `wouldWeaken`.
    static func refuse(_ path: FilePath, to protectionClass: ProtectionClass?) throws(DataProtectionError) {
        guard let protectionClass else { return }
        do throws(DataProtectionError) {
            let old = try ProtectedFileInfo(of: path).protectionClass
            guard protectionClass < old else { return }
            throw .wouldWeaken(path, from: old, to: protectionClass)
        } catch {
            // Nothing to weaken: no file, or plaintext. Anything else the writer says better.
            if case .wouldWeaken = error { throw error }
        }
    }
}
