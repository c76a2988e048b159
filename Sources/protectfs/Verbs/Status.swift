import ArgumentParser
import DataProtection

import struct FoundationEssentials.Date

/// Says what is locked.
struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the lock state of each class.")

    @Flag(help: "Show every keybag whose keys are in the kernel keyring, and your own.")
    var all = false
    @Flag(help: "Show which programs have complete or unless-open files open, or hold their plaintext.")
    var clients = false
    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    /// A keybag, or the name of one whose directory is not known.
    private enum Found {
        /// `queued`: how much work; nil if the queue cannot be read.
        case open(Keybag, KeybagStatus, queued: Int?)
        case unknown(KeybagUUID)
    }

    func run() throws {
        let found = try all ? everything() : [look(at: keybag.open())]
        if json {
            try JSON.object([
                ("secretMemory", .string(ProcessSecrets.backing.rawValue)), ("keybags", .array(try found.map(members))),
            ]).print()
        } else {
            var lines = OutputLines()
            for line in try found.flatMap(text) { try lines.add(line) }
            if clients { return try lines.finish() }
            try lines.add(Array("secrets in this command: \(ProcessSecrets.backing.spoken)".utf8))
            try lines.finish()
        }
    }

    private func look(at keybag: Keybag) throws(DataProtectionError) -> Found {
        let status = try keybag.status()
        for problem in KeybagHealth(of: keybag.directory).problems { problem.tell() }
        do throws(DataProtectionError) { return .open(keybag, status, queued: try keybag.countQueuedWork()) } catch {
            StandardError.line(.warning, Failure(error).message)
            return .open(keybag, status, queued: nil)
        }
    }

    private func everything() throws -> [Found] {
        let own: Keybag?
        do throws(DataProtectionError) { own = try keybag.open() } catch {
            guard case .because(KeybagFailure.keybagNotFound) = error else { throw error }
            own = nil
        }
        var found = try own.map { [try look(at: $0)] } ?? []
        for uuid in try Keybag.loaded() where uuid != own?.uuid {
            let known = try? Keybag.remembered(uuid, warn: ProtectionWarning.print)
            found.append(try known.map { try look(at: $0) } ?? .unknown(uuid))
        }
        return found
    }

    // MARK: text

    private func text(_ found: Found) throws -> [[UInt8]] {
        switch found {
        case .unknown(let uuid): return [Array("keybag \(uuid): keys in the keyring, directory not known".utf8)]
        case .open(let keybag, let status, let queued):
            let clients = keybag.clients()
            let openFiles = clients.map(\.unlessOpenHandles).reduce(0, +)
            var remains = openFiles > 0 ? ["\(openFiles) unless-open open"] : []
            let holders = clients.count { $0.plaintextFileCount > 0 }
            if holders > 0 { remains.append("\(holders) \(holders == 1 ? "program" : "programs") with plaintext") }
            let summary =
                status.state == .locked && !remains.isEmpty
                ? "partially \(status.summary), \(remains.joined(separator: ", ")): protectfs status --clients"
                : status.summary
            var lines = [listed(keybag.directory) + Array(": \(summary)".utf8)]
            for namespace in try keybag.namespacesWithKeys() {
                let name = namespace == 0 ? "another user namespace" : "user namespace \(namespace)"
                lines.append(Array("still unlocked in \(name)".utf8))
            }
            if let wait = status.retryAfter, wait > .zero {
                lines.append(Array("next passcode in \(spoken(wait))".utf8))
            }
            if self.clients { return lines + ClientTable(clients).lines }
            if let queued, queued > 0 { lines.append(Array("\(queued) queued: protectfs queue".utf8)) }
            lines.append(Array("CLASS         KEY".utf8))
            for protectionClass in ProtectionClass.allCases {
                let name = protectionClass.shortName
                let padding = String(repeating: " ", count: 14 - name.count)
                lines.append(Array("\(name)\(padding)\(status.keyWords(protectionClass))".utf8))
            }
            let retired = keybag.retiredGenerations
            if !retired.isEmpty {
                let numbers = retired.map(String.init).joined(separator: ", ")
                lines.append(Array("retired class keys: generation \(numbers), until protectfs rotate --forget".utf8))
            }
            if keybag.isBoundToHardware {
                lines.append(Array("hardware: \(HardwareReport(of: keybag).text)".utf8))
            }
            lines.append(Array("recovery code: \(status.hasRecoveryCode ? "there is one" : "none")".utf8))
            return lines
        }
    }

    // MARK: JSON

    private func members(_ found: Found) throws -> JSON {
        switch found {
        case .unknown(let uuid):
            return .object([("uuid", .string("\(uuid)")), ("directory", .null), ("state", .string("unknown"))])
        case .open(let keybag, let status, let queued):
            let classes = ProtectionClass.allCases.map {
                ($0.shortName, JSON.string(status.openClasses.contains($0) ? "open" : "locked"))
            }
            let namespaces = try keybag.namespacesWithKeys()
            return .object(
                [("uuid", .string("\(keybag.uuid)"))] + JSON.members(of: keybag.directory, named: "directory") + [
                    ("state", .string(status.state.rawValue)), ("classes", .object(classes)),
                    ("unlockedSince", .optional(status.unlockedSeconds)),
                    ("firstUnlockSince", .optional(status.firstUnlockSeconds)),
                    ("lastTransition", .optional(status.lastTransitionSeconds)),
                    ("secondsUntilLock", .optional(status.secondsUntilLock.map { Int64(clamping: $0.rounded(.up)) })),
                    ("retryAfter", .optional(status.retryAfter?.wholeSeconds)),
                    ("hasRecoveryCode", .bool(status.hasRecoveryCode)),
                    ("hardware", keybag.isBoundToHardware ? HardwareReport(of: keybag).json : .null),
                    ("generation", .number(Int64(keybag.activeGeneration))),
                    ("retiredGenerations", .array(keybag.retiredGenerations.map { .number(Int64($0)) })),
                    ("namespacesWithKeys", .array(namespaces.map { .number(Int64(clamping: $0)) })),
                    ("queued", .optional(queued.map { Int64($0) })),
                ] + (clients ? [("clients", .array(keybag.clients().map(\.json)))] : []))
        }
    }
}

extension KeybagStatus {
    /// The state in words, since when, and until when.
    fileprivate var summary: String {
        switch state {
        case .beforeFirstUnlock: return "locked, not unlocked since the machine started"
        case .locked: return "locked" + since(lastTransition)
        case .unlocked:
            let end = secondsUntilLock.map { ", locks in \(spoken(seconds: Int(clamping: $0.rounded(.up))))" } ?? ""
            return "unlocked" + since(unlockedSince) + end
        }
    }

    /// What stands in the column KEY.
    fileprivate func keyWords(_ protectionClass: ProtectionClass) -> String {
        switch protectionClass {
        case .none: "opens with the device key"
        case .completeUnlessOpen where state != .unlocked: "evicted; files can be created"
        case .complete where state != .unlocked: "evicted"
        case .completeUntilFirstUserAuthentication where state == .beforeFirstUnlock: "not loaded yet"
        case .completeUntilFirstUserAuthentication: "in keyring" + since(firstUnlockSince)
        default: "in keyring" + since(unlockedSince)
        }
    }

    private func since(_ time: Date?) -> String { time.map { " since \(spoken(time: $0))" } ?? "" }
}

extension SecretMemoryBacking {
    fileprivate var spoken: String {
        switch self {
        case .secretMemory: "secret memory (memfd_secret), unreadable for every other process"
        case .locked: "locked memory (mlock), never swapped"
        case .unlocked: "ordinary memory, which can be swapped: the kernel allows no more (RLIMIT_MEMLOCK)"
        }
    }
}
