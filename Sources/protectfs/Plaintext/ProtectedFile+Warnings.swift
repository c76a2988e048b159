import DataProtection

extension ProtectedFile {
    /// Warns the user that the plaintext may not be the newest, or that another program has appended bytes.
    func warnOfFindings(_ path: FilePath) throws(DataProtectionError) {
        for finding in try findings() {
            switch finding {
            case .appended, .commitsUnreachable: StandardError.line(.warning, finding.message(path))
            default: break  // a writer was killed: nothing is missing
            }
        }
    }
}
