import ArgumentParser
import PasswordHash

/// A password in, what a database keeps of it out.
struct HashPassword: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hash", abstract: "Hash a password for a service's database.",
        discussion: """
            Asks twice for a password of 1 to 1,024 bytes, and prints $pbkdf2-sha256$i=…,l=32$SALT$DIGEST: \
            PBKDF2-HMAC-SHA256 with a new random salt and at least 600,000 iterations.

            With --site and --user it does what the user's client would do, and prints the verifier of the client's \
            key: $client-pbkdf2-sha256$i=…,l=…$DIGEST. Give the number of iterations that your clients use.
            """)

    @Option(
        help: ArgumentHelp(
            "Iterations, 10,000 to 100,000,000 (default: as many as take 90 ms here; without --site at least 600,000).",
            valueName: "n"))
    var iterations: Int?
    @Option(help: ArgumentHelp("Length of the client key in bytes: 16, 20 or 32 (default: 32).", valueName: "n"))
    var length: Int?
    @OptionGroup var client: ClientKeyOptions
    @OptionGroup var password: PasswordSource

    func validate() throws {
        if length != nil, client.salt == nil { throw ValidationError("--length goes with --site and --user") }
        if let length, ClientKeyParameters.KeyLength(rawValue: length) == nil {
            throw ValidationError("--length is 16, 20 or 32")
        }
    }

    func run() throws {
        let iterations = try iterations.map { try Iterations($0) }
        let secret = try password.readNew()
        guard let (site, user) = client.salt else {
            return try StandardOutput.write(PasswordHash.hash(secret, iterations: iterations).encoded + "\n")
        }
        let key = try PasswordHash.clientKey(
            password: secret, site: site, userID: user,
            parameters: ClientKeyParameters(
                iterations: iterations ?? Iterations.calibrated(),
                length: length.flatMap(ClientKeyParameters.KeyLength.init) ?? .bytes32))
        try StandardOutput.write(StoredVerifier(of: key).encoded + "\n")
    }
}
