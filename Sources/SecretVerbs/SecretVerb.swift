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
            A secret is named by --service and --account (a generic password), by --host and what else is known of the place \
            (an internet password), or by --identity (a certificate and its key). Names can be searched in every lock state; \
            the value alone is secret.

            Accessibility: when-unlocked (the default), after-first-unlock; each also with -this-device-only, which no backup \
            has. Groups keep the secrets of programs apart. They are no wall: every program of the user can read every group.
            """,
        subcommands: verbs)

    package static let verbs: [any ParsableCommand.Type] = [
        SecretAdd.self, SecretGet.self, SecretSet.self, SecretUpdate.self, SecretDelete.self, SecretFind.self,
        SecretExport.self, SecretImport.self, SecretRewrap.self, SecretGitCredential.self, SecretAskpass.self,
    ]

    package init() {}
}
