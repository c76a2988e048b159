import DataProtection

extension FilePath {
    /// Where a file of this name is stored, or is to be: a mount of protectfs may show its directory as plaintext. Mounts come and go while a
    /// download waits, so this is asked anew before each step that uses the name.
    ///
    /// - Throws: `mountUnanswered`: it can be tried again.
    func stored() throws(DataProtectionError) -> FilePath {
        guard let lastComponent else { return self }
        let place = try StoredPlace.of(directory)
        return place == directory ? self : place.appending(lastComponent)
    }
}
