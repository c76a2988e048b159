import Foundation
import PasswordHash

/// A server's users. A file of lines `NAME ENCODED` stands in for the database.
struct Service {
    let file: URL
    /// One number for all users, measured when the service was set up.
    let iterations = Iterations.recommended
    private var users: [String: String] = [:]

    init(_ file: URL) throws {
        self.file = file
        guard FileManager.default.fileExists(atPath: file.path) else { return }
        for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
            let fields = line.split(separator: " ").map(String.init)
            users[fields[0]] = fields[1]
        }
    }

    private mutating func store(_ name: String, _ encoded: String) throws {
        users[name] = encoded
        try users.map { "\($0) \($1)\n" }.sorted().joined().write(to: file, atomically: true, encoding: .utf8)
    }

    // MARK: a server that sees the password

    mutating func add(_ name: String, _ password: borrowing SecretBytes) throws {
        try store(name, PasswordHash.hash(password, iterations: iterations).encoded)
    }

    mutating func check(_ name: String, _ password: borrowing SecretBytes) throws -> Bool {
        // An unknown user takes as long as a known one.
        let decoy = try PasswordHash.decoy(iterations: iterations)
        let stored = try users[name].map { try PasswordHash(encoded: $0) } ?? decoy
        guard try stored.verify(password) else { return false }
        if stored.needsRehash(least: iterations) { try add(name, password) }
        return true
    }

    // MARK: a server that never sees it

    /// What a client needs before it logs in; the same for every name.
    func parameters(of name: String) throws -> String { try verifier(of: name).parameters.encoded }

    mutating func register(_ name: String, _ key: borrowing ClientKey) throws {
        try store(name, StoredVerifier(of: key).encoded)
    }

    func login(_ name: String, _ secret: borrowing SecretBytes) throws -> Bool {
        try verifier(of: name).verify(secret)
    }

    private func verifier(of name: String) throws -> StoredVerifier {
        let decoy = try StoredVerifier.decoy(parameters: ClientKeyParameters(iterations: iterations))
        return try users[name].map { try StoredVerifier(encoded: $0) } ?? decoy
    }
}
