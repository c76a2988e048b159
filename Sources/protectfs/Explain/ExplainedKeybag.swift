import DataProtection

/// What an explanation needs to know of a keybag.
struct ExplainedKeybag {
    /// Nil where it cannot be used.
    var state: ProtectionState?
    var keybag: Keybag?
    /// Whether it is another one than that of this command: under such a one files are only read.
    var isOther = false
    /// Where it is and what state it is in, or why it cannot be used.
    var spoken: String
    /// What would help where it cannot be used.
    var help: String?
    /// Why class none cannot be used, and class unless-open before the first unlock.
    var deviceKeyProblem: DataProtectionError?

    var directory: FilePath? { keybag?.directory }

    init(_ open: () throws(DataProtectionError) -> Keybag) {
        do throws(DataProtectionError) {
            let keybag = try open()
            let status = try keybag.status()
            state = status.state
            self.keybag = keybag
            deviceKeyProblem = KeybagHealth(of: keybag.directory).deviceKeyProblem
            let words = status.state == .unlocked ? "unlocked" : status.state.spoken(since: status.lastTransition)
            spoken = "\(quoted(keybag.directory)), \(words)"
        } catch {
            spoken =
                if case .because(FileFailure.foreignKeybag) = error { "not available to you" } else { error.message }
            help = error.hint
        }
    }

    /// The keybag of a file that is there.
    init(of uuid: KeybagUUID, among keybags: Keybags) {
        self.init { () throws(DataProtectionError) in
            if let keybag = keybags.named(uuid) { return keybag }
            // The user's own may be it, and be damaged.
            do throws(DataProtectionError) { _ = try keybags.own() } catch {
                guard case .because(KeybagFailure.keybagNotFound(let directory)) = error,
                    !KeybagRegistry.wasUsed(in: directory, as: uuid)
                else {
                    throw error
                }
            }
            throw .because(FileFailure.foreignKeybag("", uuid))
        }
        guard let keybag, keybags.isOther(keybag) else { return }
        isOther = true
        spoken += ", not the keybag of this command"
    }
}
