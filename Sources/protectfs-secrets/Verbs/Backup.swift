extension CopySecrets {
    func perform() throws {
        let store = try SecretStore(appID: "protectfs", keybag: keybag.open())
        let encoded = try SecretFile.read(0, upTo: 5 * 4096).withUnsafeBytes { Array($0) }
        guard let names = SecretKeyNames(encoded: encoded) else { throw Failure(.bug, "no list of class keys") }
        let result: SecretBackupResult
        do throws(SecretError) {
            result = try store.copy(to: .inherited(backup.path), having: names, removingDeleted: delete)
        } catch {
            guard case .storeDamaged(let path, _) = error, path != store.path else { throw error }
            throw Failure(error.exitStatus, error.message, hint: "move it away, and back up again")
        }
        if result.leftOut > 0 {
            StandardError.line(
                .note, "\(spoken(result.leftOut, "secret")) of this device only, and so not in the backup")
        }
        if result.onlyInBackup > 0 { StandardError.warnOfNoSecrets(in: backup.path) }
        let outcome = Outcome()
        for failure in result.failures { outcome.record(failure) }
        if result.withoutKey > 0 {
            outcome.record(
                Failure(
                    .notNow,
                    "\(spoken(result.withoutKey, "secret")) not copied: backup \(quoted(backup.path)) has not got their class keys",
                    hint: "while unlocked: protectfs backup --new-keybag --to \(quoted(backup.path))"
                        + KeybagOption.words(for: store.keybag.directory)))
        }
        try outcome.leave()
    }
}

extension RestoreSecrets {
    func perform() throws {
        let store = try SecretStore(appID: "protectfs", keybag: keybag.open())
        guard let keys = SecretKeyList(encoded: try SecretFile.read(0, upTo: 64 * 4096)) else {
            throw Failure(.bug, "no list of class keys")
        }
        let result = try store.restore(from: .inherited(backup.path), keys, replacing: replace, isTrial: dryRun)
        let outcome = Outcome()
        for failure in result.failures { outcome.record(Failure(replaceable: failure)) }
        for error in result.restoredEarlier {
            let hint = "an earlier copy opens" + (dryRun ? "" : ", and was restored instead")
            outcome.record(Failure(error.exitStatus, error.message, hint: hint))
        }
        if result.withoutKey > 0 {
            outcome.record(
                Failure(
                    .notFound,
                    "\(spoken(result.withoutKey, "secret")) not restored: the backup has not got their class keys"))
        }
        try outcome.leave()
    }
}

extension LowerDirectory {
    /// The backup's directory, as the program that has started this one holds it.
    fileprivate static func inherited(_ path: FilePath) -> LowerDirectory { LowerDirectory(path, descriptor: 3) }
}
