import Testing

@testable import PasswordHash

@Suite("Client keys and what a server stores of them")
struct ClientKeyTests {
    private let parameters = ClientKeyParameters(iterations: .fewest)

    private func key(
        _ password: String = "x", site: String = "example.org", userID: String = "ann",
        _ parameters: ClientKeyParameters? = nil
    ) throws -> ClientKey {
        try PasswordHash.clientKey(
            password: SecretBytes(password), site: site, userID: userID, parameters: parameters ?? self.parameters)
    }

    @Test("Register, store as text, log in", arguments: ClientKeyParameters.KeyLength.allCases)
    func life(length: ClientKeyParameters.KeyLength) throws {
        // The client registers: key and parameters go to the server.
        let registered = try key(parameters: ClientKeyParameters(iterations: .fewest, length: length))
        #expect(registered.secret.count == length.rawValue)
        let told = registered.parameters.encoded
        let received = try ClientKey(
            secret: SecretBytes(registered.secret.readable()), parameters: ClientKeyParameters(encoded: told))
        let stored = try StoredVerifier(of: received).encoded
        // Later: the server tells the parameters, the client makes its key again.
        let verifier = try StoredVerifier(encoded: stored)
        let again = try key(parameters: ClientKeyParameters(encoded: verifier.parameters.encoded))
        #expect(try verifier.verify(again.secret))
        // What is stored does not log in, and nothing else does.
        let stolen = try verifier.verify(SecretBytes(Array(stored.utf8.suffix(43)).prefix(length.rawValue)))
        #expect(!stolen)
        #expect(try !verifier.verify(key("y", verifier.parameters).secret))
        #expect(try !verifier.verify(key(site: "example.com", verifier.parameters).secret))
        #expect(try !verifier.verify(key(userID: "Ann", verifier.parameters).secret))
        let other = ClientKeyParameters(iterations: try Iterations(10_001), length: length)
        #expect(try !verifier.verify(key(parameters: other).secret))
    }

    private func key(parameters: ClientKeyParameters) throws -> ClientKey { try key("x", parameters) }

    @Test("The key is of the site, the user and the password; the same ones give the same key")
    func deterministic() throws {
        let first = try key().secret.readable()
        #expect(try key().secret.readable() == first)
        for other in [
            try key("y").secret.readable(), try key(site: "example.com").secret.readable(),
            try key(userID: "bob").secret.readable(),
        ] { #expect(other != first) }
    }

    @Test("No two pairs of site and user have one salt")
    func salts() throws {
        #expect(try PasswordHash.clientSalt(site: "a", userID: "b:c") == Array("a:b:c".utf8))
        #expect(
            error { _ = try PasswordHash.clientSalt(site: "a:b", userID: "c") } == .unusableSalt(.site, .hasColon))
        // Of all pairs of short texts over {a, b, :}, those that are accepted have salts of their own.
        let texts = ["", "a", "b", ":"].flatMap { first in ["", "a", "b", ":"].map { first + $0 } }
        var salts: [[UInt8]: [String]] = [:]
        for site in Set(texts) {
            for userID in Set(texts) {
                guard let salt = try? PasswordHash.clientSalt(site: site, userID: userID) else { continue }
                salts[salt, default: []].append("\(site) and \(userID)")
            }
        }
        #expect(salts.count > 50)
        #expect(salts.values.filter { $0.count > 1 } == [])
    }

    @Test("Bytes of site and user are taken as they are: é in two spellings is two users")
    func unicode() throws {
        let (composed, decomposed) = ("\u{E9}", "e\u{301}")
        #expect(composed == decomposed)  // to Swift
        #expect(try key(userID: composed).secret.readable() != key(userID: decomposed).secret.readable())
    }

    @Test("Site and user have bounds")
    func bounds() throws {
        func fault(_ site: String, _ userID: String) -> PasswordError? {
            error { _ = try key(site: site, userID: userID) }
        }
        let (longestSite, longestUser) = (String(repeating: "s", count: 255), String(repeating: "u", count: 1024))
        #expect(fault("", "u") == .unusableSalt(.site, .empty))
        #expect(fault("s", "") == .unusableSalt(.userID, .empty))
        #expect(fault(longestSite + "s", "u") == .unusableSalt(.site, .tooLong(count: 256, limit: 255)))
        #expect(fault("s", longestUser + "u") == .unusableSalt(.userID, .tooLong(count: 1025, limit: 1024)))
        #expect(fault(longestSite, longestUser) == nil)
    }

    @Test("Bytes of another length are no client key", arguments: [0, 1, 15, 17, 20, 31, 32, 33, 1_000_000])
    func lengths(count: Int) throws {
        let parameters = ClientKeyParameters(iterations: .fewest, length: .bytes16)
        let expected = PasswordError.wrongKeyLength(expected: 16, actual: count)
        #expect(error { _ = try ClientKey(secret: SecretBytes(zeroed: count), parameters: parameters) } == expected)
        let verifier = try StoredVerifier.decoy(parameters: parameters)
        #expect(error { _ = try verifier.verify(SecretBytes(zeroed: count)) } == expected)
    }

    @Test("One bit of a client key more or less does not log in")
    func bits() throws {
        let key = try key()
        let verifier = try StoredVerifier(of: key)
        for bit in 0..<256 {
            var bytes = key.secret.readable()
            bytes[bit / 8] ^= 1 << (bit % 8)
            #expect(try !verifier.verify(SecretBytes(bytes)))
        }
    }

    @Test("A decoy verifies nothing, and tells what all others tell")
    func decoy() throws {
        let decoy = try StoredVerifier.decoy(parameters: parameters)
        #expect(decoy.parameters == parameters)
        #expect(try !decoy.verify(key().secret))
        #expect(try decoy.encoded.utf8.count == StoredVerifier(of: key()).encoded.utf8.count)
        #expect(try StoredVerifier.decoy(parameters: parameters).encoded != decoy.encoded)
    }

    @Test("A verifier needs a new key when it has fewer iterations than the service wants")
    func needsRehash() throws {
        let verifier = try StoredVerifier(of: key())
        #expect(!verifier.needsRehash(least: .fewest))
        #expect(try verifier.needsRehash(least: Iterations(10_001)))
    }

    @Test("Without given parameters they are calibrated, and come with the key")
    func calibrated() throws {
        let key = try PasswordHash.clientKey(password: SecretBytes("x"), site: "example.org", userID: "ann")
        #expect(Iterations.allowed.contains(key.parameters.iterations.count))
        let again = try self.key(parameters: key.parameters)
        #expect(again.secret.readable() == key.secret.readable())
    }
}
