import DataProtection

extension ProtectionWarning {
    /// Prints the warning.
    package static let print: @Sendable (ProtectionWarning) -> Void = { StandardError.line(.warning, $0.message) }
}
