extension CopySecrets {
    func perform() throws {
        let store = try SecretStore(appID: "protectfs", keybag: keybag.open())
        let encoded = try SecretFile.read(0, upTo: 5 * 4096).withUnsafeBytes { Array($0) }
        guard let names = SecretKeyNames(encoded: encoded) else { throw Failure(.bug, "no list of class keys") }
        let result = try store.copy(to: backup.path, having: names)
        if result.leftOut > 0 {
            StandardError.line(
                .note, "\(spoken(result.leftOut, "secret")) of this device only, and so not in the backup")
        }
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
        let result = try store.restore(from: backup.path, keys, replacing: replace, isTrial: dryRun)
        let outcome = Outcome()
        for failure in result.failures { outcome.record(Failure(replaceable: failure)) }
        if result.withoutKey > 0 {
            outcome.record(
                Failure(
                    .notFound,
                    "\(spoken(result.withoutKey, "secret")) not restored: the backup has not got their class keys"))
        }
        try outcome.leave()
    }
}
