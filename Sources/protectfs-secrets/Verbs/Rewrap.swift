extension SecretRewrap {
    func perform() throws {
        let store = try SecretStore(appID: "protectfs", keybag: keybag.open())
        if check {
            let waiting = try store.needingRewrap()
            guard waiting > 0 else { return }
            throw Failure(
                .refused, "\(spoken(waiting, "secret")) still under retired class keys",
                hint: "first: protectfs rotate --resume\(KeybagOption.words(for: store.keybag.directory))")
        }
        let outcome = Outcome()
        for failure in try store.rewrap().failures { outcome.record(failure) }
        try outcome.leave()
    }
}
