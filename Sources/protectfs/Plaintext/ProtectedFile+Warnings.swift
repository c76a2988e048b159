import DataProtection

extension ProtectedFile {
    /// Warns of what whoever works on the plaintext should know: it may not be the newest, or another program has appended bytes.
    func warnOfFindings(_ path: FilePath) throws(DataProtectionError) {
        for finding in try findings() {
            switch finding {
            case .appended, .commitsUnreachable: StandardError.line(.warning, finding.message(path))
            default: break  // a writer was killed: nothing is missing
            }
        }
    }
}
