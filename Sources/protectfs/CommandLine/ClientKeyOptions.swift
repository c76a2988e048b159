import ArgumentParser

/// `--site` and `--user`: whose client key is meant.
struct ClientKeyOptions: ParsableArguments {
    @Option(help: ArgumentHelp("For a client key: the site, such as a host name, without a colon.", valueName: "name"))
    private var site: String?
    @Option(help: ArgumentHelp("For a client key: the user's ID at that site.", valueName: "id"))
    private var user: String?

    /// Both, or nil if a password with a random salt is meant.
    var salt: (site: String, user: String)? { site.flatMap { site in user.map { (site, $0) } } }

    func validate() throws {
        guard (site == nil) == (user == nil) else { throw ValidationError("--site and --user go together") }
        for text in [site, user].compactMap({ $0 }) where text.unicodeScalars.contains("\u{FFFD}") {
            // What Swift puts in the place of bytes that are not UTF-8: other bytes would make the same key.
            throw ValidationError("--site and --user are UTF-8")
        }
    }
}
