import ProtectionKeys
import SystemPackage

@testable import DataProtection

extension FuzzTarget {
    /// Rules for an upgrade: 1 byte (length of a path), the path, then the file of rules.
    static let rules = FuzzTarget("rules", longest: 2048) { bytes in
        var input = Input(bytes)
        let path = input.take(Int(input.byte())).split(separator: UInt8(ascii: "/")).map(Array.init)
        let rules: UpgradeRules
        do throws(DataProtectionError) {
            rules = try UpgradeRules(parsing: input.remainder(), at: "r", isFile: true)
        } catch {
            return try hold(error.isConfiguration, "\(error)")
        }
        if let text = String(validating: rules.lines, as: UTF8.self) {
            try hold((try? UpgradeRules(text)) == rules.withoutSource, "rules of a program read as others")
        }
        let again = try? UpgradeRules(parsing: rules.lines, at: "", isFile: false)
        try hold(again == rules.withoutSource, "rules read as others once they are noted")
        let verdict = rules.verdict(for: path)
        try hold(again?.verdict(for: path) == verdict, "another verdict")
        // Whatever is said of all files in a directory is said of this one, unless an earlier rule says otherwise.
        if let last = path.last, rules.verdict(forAllIn: path.dropLast()) != nil {
            try hold(verdict != nil, "all files in its directory but \(last)")
        }
    }

    /// The user's configuration.
    static let configuration = FuzzTarget("configuration", longest: 1024) { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        let found: UserConfiguration
        do throws(DataProtectionError) { found = try UserConfiguration(parsing: text, at: "c") } catch {
            return try hold(error.isConfiguration, "\(error)")
        }
        let times = [("grace", found.agentGrace), ("idle", found.agentIdle), ("max", found.agentMax)]
        var lines = times.compactMap { name, time in time.map { "agent-\(name) = \($0.components.seconds)s" } }
        if found.agentGrace == .zero { lines[0] = "agent-grace = 0" }
        if let named = found.defaultClass { lines.append("default-class = \(named.shortName)") }
        let again = try? UserConfiguration(parsing: lines.joined(separator: "\n"), at: "c")
        try hold(again == found, "it reads as another one: \(lines)")
    }

    /// Notes of work that waits for keys. FORMAT.md §2.8.
    static let queue = FuzzTarget("queue", longest: 2048) { bytes in
        let records = QueueRecord.decode(bytes)
        let encoded = records.flatMap(\.encoded)
        try hold(QueueRecord.decode(encoded) == records, "notes read as others")
        // What is torn was never acknowledged, and takes nothing with it.
        if let last = records.last {
            let torn = encoded.dropLast(1 + encoded.count % last.encoded.count)
            try hold(QueueRecord.decode(Array(torn)) == records.dropLast(), "a torn note")
        }
        let names = SecretKeyNames(encoded: bytes)
        try hold((names == nil) == (bytes.count % 5 != 0), "names of keys of \(bytes.count) bytes")
        let name = ClassKeyName(
            keybag: try KeybagUUID(bytes: [UInt8](repeating: 1, count: 16)), kind: .secrets, protectionClass: .complete,
            generation: 1)
        guard let list = SecretKeyList(encoded: Known.secret(bytes)) else { return }
        let found = try list.withKey(name) { (key) throws(KeyError) in true }
        try hold((found ?? false) == list.contains(name), "a key that is not in its list")
    }
}

extension DataProtectionError {
    fileprivate var isConfiguration: Bool {
        if case .because(KeybagFailure.configuration(_, let line, _)) = self { line > 0 } else { false }
    }
}
