/// A verb of `protectfs secret`.
protocol SecretVerb: ParsableCommand {
    /// Does it.
    func perform() throws
}

/// All of them.
struct SecretCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: Companion.secret.rawValue,
        abstract: Companion.secret.abstract,
        discussion: """
            A generic password is named by --service and --account, an internet password by --host and the options \
            for its protocol, port, path and realm, and an identity (a certificate and its key) by --identity. Names \
            can be searched in every lock state; only the value is secret.

            Accessibility is when-unlocked (the default) or after-first-unlock. With -this-device-only appended the \
            secret is in no backup. Groups keep the secrets of programs apart, but do not isolate programs: every \
            program of the user can read every group.
            """,
        subcommands: [
            SecretAdd.self, SecretGet.self, SecretSet.self, SecretUpdate.self, SecretDelete.self, SecretFind.self,
            SecretExport.self, SecretImport.self, SecretRewrap.self, SecretGitCredential.self, SecretAskpass.self,
            CopySecrets.self, RestoreSecrets.self,
        ])
}
