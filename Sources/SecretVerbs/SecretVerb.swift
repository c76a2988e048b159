/// A verb of `protectfs secret`: what it is called and what it takes.
///
/// Both programs read these words: `protectfs`, for help and completion, before it becomes `protectfs-secrets`, and that one
/// to do them (`PerformedSecretVerb`). So `protectfs lock` does not load SQLite.
package protocol SecretVerb: ParsableCommand {}

/// All of them.
package struct SecretCommand: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "secret",
        abstract: "Store passwords, keys and identities that can be read only in certain lock states.",
        discussion: """
            A generic password is named by --service and --account, an internet password by --host and the options \
            for its protocol, port, path and realm, and an identity (a certificate and its key) by --identity. Names \
            can be searched in every lock state; only the value is secret.

            Accessibility is when-unlocked (the default) or after-first-unlock. With -this-device-only appended the \
            secret is in no backup. Groups keep the secrets of programs apart, but do not isolate programs: every \
            program of the user can read every group.
            """,
        subcommands: verbs)

    package static let verbs: [any ParsableCommand.Type] = [
        SecretAdd.self, SecretGet.self, SecretSet.self, SecretUpdate.self, SecretDelete.self, SecretFind.self,
        SecretExport.self, SecretImport.self, SecretRewrap.self, SecretGitCredential.self, SecretAskpass.self,
    ]

    package init() {}
}
