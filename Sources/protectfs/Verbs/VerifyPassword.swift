import ArgumentParser
import DataProtection
import Glibc
import PasswordHash

/// A password against what a database keeps of it.
struct VerifyPassword: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Check a password against a stored hash.",
        discussion: """
            Prints nothing if the password is right. The exit status is 77 if it is wrong, and 65 if the string is \
            not a hash of protectfs password hash.

            Other users of this machine can see an argument. Without the argument the hash is the first line of \
            standard input. Put an argument in single quotes, or the shell replaces parts of it. For the verifier of \
            a client key give --site and --user.
            """)

    @Argument(help: "The stored hash (default: the first line of standard input).")
    var encoded: String?
    @Option(
        help: ArgumentHelp(
            "Warn if the hash has fewer iterations (default: 600,000; none for a client key).", valueName: "n"))
    var iterations: Int?
    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var client: ClientKeyOptions
    @OptionGroup var password: PasswordSource

    private enum Stored {
        case hash(PasswordHash)
        case verifier(StoredVerifier, site: String, user: String)
    }

    func run() throws {
        let least = try iterations.map { try Iterations($0) }
        let stored = try stored()  // said before anybody types
        let secret = try password.read()
        let isRight: Bool
        let (needsRehash, count): (Bool, Int)
        switch stored {
        case .hash(let hash):
            isRight = try hash.verify(secret)
            (needsRehash, count) = (hash.needsRehash(least: least ?? .recommended), hash.iterations.count)
        case .verifier(let verifier, let site, let user):
            let key = try PasswordHash.clientKey(
                password: secret, site: site, userID: user, parameters: verifier.parameters)
            isRight = try verifier.verify(key.secret)
            (needsRehash, count) = (least.map(verifier.needsRehash) ?? false, verifier.parameters.iterations.count)
        }
        if json {
            try JSON.object([
                ("verified", .bool(isRight)), ("iterations", .number(Int64(count))),
                ("needsRehash", .bool(needsRehash)),
            ]).print()
        }
        guard isRight else { throw Failure(.refused, "wrong password") }
        if needsRehash, !json {
            StandardError.line(
                .hint, "hash the password again, with more than \(count) iterations: protectfs password hash")
        }
    }

    private func stored() throws -> Stored {
        let text = try encoded ?? Self.lineOfInput()
        if text.hasPrefix("$client-") {
            let verifier = try StoredVerifier(encoded: text)
            guard let (site, user) = client.salt else {
                throw Failure(.usage, "this is the verifier of a client key: it needs --site and --user")
            }
            return .verifier(verifier, site: site, user: user)
        }
        let hash = try PasswordHash(encoded: text)
        guard client.salt == nil else {
            throw Failure(.usage, "this is a hash with a salt of its own: --site and --user are for client keys")
        }
        return .hash(hash)
    }

    /// What stands behind the line may be the password (`--password-fd 0`).
    private static func lineOfInput() throws(Failure) -> String {
        guard isatty(0) == 0 else {
            throw Failure(.usage, "there is no hash to check against", hint: "give it through a pipe or as an argument")
        }
        return try SecretLine.read(from: 0, upTo: 1024).withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }
}
