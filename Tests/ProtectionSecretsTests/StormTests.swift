import Foundation
import ProtectionKeys
import TestEffort
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// Processes that are killed while they write.
@Suite struct SecretStormTests {
    private static let kills = Effort.count(12, 200)

    /// Writers of SQLite do not queue: beside one that never pauses, another one can wait in vain for its ten seconds. Once in hundreds of times.
    private static func set(_ text: String, in store: SecretStore) throws {
        do throws(SecretError) { try store.set(.account("beside"), value: secret(text)) } catch {
            guard case .store(_, code: 5, reason: _) = error else { throw error }
            print("storm, secrets: waited in vain for the store, once more")
            try store.set(.account("beside"), value: secret(text))
        }
    }

    /// What was acknowledged is there, or something newer; and nothing else.
    @Test func killedWhileUpdating() throws {
        let bed = try SecretsBed()
        var generator = Effort.generator("storm, secrets")
        var next = 0
        var acknowledged = [Int: Int]()
        for kill in 0..<Self.kills {
            let worker = try SecretsWorker.start(bed, "update", "\(next)")
            // Beside it somebody reads, and somebody else writes.
            usleep(.random(in: 20_000...300_000, using: &generator))
            try Self.set("\(kill)", in: bed.store)
            worker.kill()
            for line in try worker.lines() {
                let number = try #require(Int(line), "\(line)")
                acknowledged[number % 10] = number
                next = max(next, number + 1)
            }
            let store = try bed.another()
            #expect(try store.text(.account("beside")) == "\(kill)")
            for (slot, number) in acknowledged {
                let found = try #require(
                    Int(try store.text(.genericPassword(service: "storm", account: "\(slot)"))))
                #expect(found >= number, "acknowledged: \(number), found: \(found)")
                #expect(found % 10 == slot)
                next = max(next, found + 1)
            }
            #expect(try store.find().damaged == 0)
        }
        print("storm, secrets, at any time: \(Self.kills) kills, \(next) updates begun")
        #expect(next > 0)
    }

    /// Several processes write to the same secrets at once.
    @Test func severalWriters() throws {
        let bed = try SecretsBed()
        let workers = try (0..<3).map { try SecretsWorker.start(bed, "update", "\($0 * 1_000_000)") }
        // Each has written all ten, however busy the machine is.
        for worker in workers {
            var lines = 0
            while lines < 10, case let piece = worker.next(), !piece.isEmpty {
                lines += piece.count { $0 == UInt8(ascii: "\n") }
            }
            #expect(lines >= 10)
        }
        for worker in workers { worker.kill() }
        #expect(try bed.store.find().records.count == 10)
        for number in 0..<10 {
            let found = Int(try bed.store.text(.genericPassword(service: "storm", account: "\(number)")))
            #expect(found.map { $0 % 10 } == number)
        }
    }
}
