import FoundationEssentials
import ProtectionKeys
import SystemPackage

@testable import DataProtection
@testable import ProtectionSecrets
@testable import protectfs_secrets

extension FuzzTarget {
    /// An export of secrets, FORMAT.md §2.17: 1 byte (how many bytes are read at once; 0: all), then the text.
    static let secretsImport = FuzzTarget("secrets-import", longest: 2048) { bytes in
        try SecretTargets.checkValue(bytes)
        var input = Input(bytes)
        let piece = Int(input.byte())
        var lines = SecretLineReader(longest: 1024) { buffer in
            let bytes = input.take(piece == 0 ? buffer.count : min(piece, buffer.count))
            buffer.copyBytes(from: bytes)
            return bytes.count
        }
        do {
            for item in try SecretStore.items(of: &lines) { try SecretTargets.check(item) }
        } catch SecretError.invalid(let reason) {
            try hold(!reason.isEmpty, "no reason")
        }
    }

    /// What git says of a credential, and what ssh, git and sudo ask: 1 byte (bit 0: a question), then the text.
    static let git = FuzzTarget("git", longest: 1024) { bytes in
        var input = Input(bytes)
        guard !input.byte().has(0) else {
            return try SecretTargets.check(AskpassQuestion(String(decoding: input.remainder(), as: UTF8.self)))
        }
        let scratch = try SecretTargets.scratch.get()
        try scratch.hold([(0, input.remainder())])
        do {
            let credential = try GitCredential(from: scratch.file.descriptor)
            if let server = credential.server {
                try hold((0...65_535).contains(server.port), "port \(server.port)")
                try hold(server.host == server.host.lowercased(), "host \(server.host)")
            }
            let count = credential.withPassword { password in password.count }
            try hold(count ?? 0 <= bytes.count, "a password of \(count ?? 0) bytes")
        } catch let failure as Failure {
            try hold(failure.status == .usage, failure.message)
        }
    }
}

private enum SecretTargets {
    static let scratch = Result { try ScratchFile() }

    static func check(_ item: SecretStore.Item) throws {
        let record = SecretRecord(
            id: [UInt8](repeating: 1, count: 16), name: item.name, group: item.group,
            accessibility: item.accessibility, createdAt: 0, modifiedAt: 0)
        let line = try PortableSecret(record).line()
        try hold(!line.contains(0x0A), "a line of two")
        let again = try JSONDecoder().decode(PortableSecret.self, from: Data(line)).secret
        try hold(again?.name == item.name && again?.group == item.group, "a secret reads as another one")
        try hold(again?.accessibility == item.accessibility, "an accessibility reads as another one")
        let value = SecretBase64.decode(SecretBase64.encode(item.value))
        let isSame = value?.withUnsafeBytes { value in item.value.withUnsafeBytes { value.elementsEqual($0) } }
        try hold(isSame == true, "a value reads as another one")
        do throws(SecretError) { try item.name.check() } catch {
            guard case .invalid = error else { throw Broken(description: "\(error)") }
        }
    }

    static func checkValue(_ bytes: [UInt8]) throws {
        // Two readers of base 64, one of them for secrets.
        let plain = Base64.decode(String(decoding: bytes, as: UTF8.self))
        let secret = SecretBase64.decode(Known.secret(bytes))
        let isSame = secret?.withUnsafeBytes { $0.elementsEqual(plain ?? []) } ?? true
        try hold(isSame && (secret == nil) == (plain == nil), "base 64 reads in two ways")
        let joined = Known.secret(bytes)
        do throws(SecretError) {
            let identity = try SecretIdentity(joined: joined)
            let again = identity.joined()
            let isSame = again.withUnsafeBytes { $0.elementsEqual(bytes) }
            guard isSame else { throw .invalid(reason: "again") }
        } catch {
            guard case .invalid(let reason) = error, reason != "again" else {
                throw Broken(description: "an identity is written in another way: \(error)")
            }
        }
    }

    static func check(_ question: AskpassQuestion?) throws {
        switch question {
        case nil: return
        case .account(let server): try hold(!server.host.isEmpty && !server.protocol.isEmpty, "no server")
        case .secret(.genericPassword(let service, let account)):
            try hold(["ssh-key", "sudo"].contains(service) && !account.isEmpty, "\(service) of \(account)")
        case .secret(.internetPassword(let server, _)):
            try hold(!server.host.isEmpty && !server.protocol.isEmpty, "no server")
        case .secret(.identity): throw Broken(description: "an identity that is asked for")
        }
    }
}
