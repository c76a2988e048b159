import Glibc
import ProtectionSecrets

// A process that uses a store of secrets, for tests that kill it, lock beside it, or search its memory:
//
//     secrets-worker KEYBAG update FIRST   writes numbers from FIRST on to ten secrets in turn, and says each when it lasts
//     secrets-worker KEYBAG change FIRST   sets, and every third time deletes, ten secrets in turn; after each it waits for a byte
//     secrets-worker KEYBAG hold SERVICE   reads all secrets of a service, drops them, says how many, and waits for the end of its input
//     secrets-worker KEYBAG try SERVICE    reads, updates and adds a secret of each accessibility, and says which it could

guard CommandLine.arguments.count == 4 else { exit(64) }

/// At once: who is killed after it has said something.
func say(_ words: String...) {
    let line = Array((words.joined(separator: " ") + "\n").utf8)
    write(1, line, line.count)
}

func secret(_ text: String) -> SecretBytes {
    SecretBytes(byteCount: text.utf8.count) { $0.copyBytes(from: text.utf8) }
}

func attempt(_ body: () throws(SecretError) -> Void) -> String {
    do throws(SecretError) {
        try body()
        return "+"
    } catch {
        if case .locked = error { return "x" }
        return "\(error)"
    }
}

do {
    let store = try SecretStore(
        appID: "org.example.test", keybag: Keybag(at: FilePath(CommandLine.arguments[1])))
    let word = CommandLine.arguments[3]
    switch CommandLine.arguments[2] {
    case "update":
        var number = Int(word) ?? 0
        while true {
            try store.set(
                .genericPassword(service: "storm", account: "\(number % 10)"), value: secret("\(number)"),
                accessibility: .afterFirstUnlock)
            say("\(number)")
            number += 1
        }
    case "change":
        for number in (Int(word) ?? 0)... {
            let name = SecretName.genericPassword(service: "storm", account: "\(number % 10)")
            if number % 3 == 2 {
                try? store.delete(name)
            } else {
                try store.set(name, value: secret("\(number)"), accessibility: .afterFirstUnlock)
            }
            say("\(number)")
            _ = getchar()
        }
    case "hold":
        var query = SecretQuery()
        query.service = word
        var bytes = 0
        let records = try store.find(query).records
        for record in records { bytes += try store.value(of: record.name).count }
        say("\(records.count) \(bytes)")
        while getchar() != EOF {}
    case "try":
        for accessibility in SecretAccessibility.allCases {
            let old = SecretName.genericPassword(service: word, account: accessibility.name)
            let new = SecretName.genericPassword(service: word, account: "\(accessibility.name) \(getpid())")
            let read = attempt { () throws(SecretError) in _ = try store.value(of: old) }
            let update = attempt { () throws(SecretError) in _ = try store.update(old, value: secret("updated")) }
            let add = attempt { () throws(SecretError) in
                _ = try store.add(new, value: secret("added"), accessibility: accessibility)
            }
            say(accessibility.name, read, update, add)
        }
    default: exit(64)
    }
} catch {
    say("error \(error)")
    exit(1)
}
