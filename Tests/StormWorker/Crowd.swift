import DataProtection
import Glibc
import StormScript
import SystemPackage

/// One of many who use a keybag while it is locked and unlocked by others.
///
///     toggle DIRECTORY COUNT PASSCODE    unlocks and locks
///     read DIRECTORY                     the same bytes in a class A and a class B file, `complete` and `unless-open-handle`
///     write DIRECTORY NAME               appends numbers to a class A file, each synced
///
/// Whatever happens but data or *locked* is an error, and a class B handle is never locked.
struct Crowd {
    private let keybag: Keybag
    private let role: String
    private let directory: FilePath
    private let rest: [String]

    private struct Wrong: Error { let what: String }

    init(_ keybag: Keybag, _ arguments: [String]) {
        self.keybag = keybag
        (role, directory, rest) = (arguments[0], FilePath(arguments[1]), Array(arguments.dropFirst(2)))
    }

    func run() throws {
        switch role {
        case "toggle": try toggle(Int(rest[0])!, rest[1])
        case "read": try read()
        case "write": try write()
        default: throw Wrong(what: role)
        }
    }

    private var isOver: Bool { access(directory.appending("stop").string, F_OK) == 0 }

    private func toggle(_ count: Int, _ passcode: String) throws {
        var overtaken = 0
        for _ in 0..<count {
            let secret = SecretBytes(byteCount: passcode.utf8.count) { $0.copyBytes(from: passcode.utf8) }
            do throws(DataProtectionError) { try keybag.unlock(passcode: secret) } catch {
                guard case .because(KeybagFailure.lockedMeanwhile) = error else { throw error }
                overtaken += 1
            }
            try keybag.lock()
        }
        say("\(count) \(overtaken)")
    }

    /// Whether `body` met no lock.
    private func isOpen(_ body: () throws -> Void) throws -> Bool {
        do { try body() } catch {
            guard case DataProtectionError.because(KeybagFailure.locked) = error else { throw error }
            usleep(500)
            return false
        }
        return true
    }

    private func read() throws {
        let files = ["complete", "unless-open-handle"].map { directory.appending($0) }
        let handles = try files.map { try ProtectedFile.open($0, keybag: keybag) }
        say("ready")
        let expected = pattern(7, count: 10_000)
        var (data, locked) = (0, 0)
        while !isOver {
            let isUnlocked = try isOpen {
                guard try handles[0].bytes(at: 0, count: 20_000) == expected else { throw Wrong(what: "other bytes") }
            }
            if isUnlocked { data += 1 } else { locked += 1 }
            guard try handles[1].bytes(at: 0, count: 20_000) == expected else { throw Wrong(what: "other bytes in B") }
            _ = try isOpen { try ProtectedFile.open(files[0], keybag: keybag).close() }
            guard try keybag.state() != .beforeFirstUnlock else { throw Wrong(what: "class key C has gone") }
        }
        say("\(data) \(locked)")
    }

    private func write() throws {
        let file = try ProtectedFile.open(directory.appending(rest[0]), .readWrite, create: .complete, keybag: keybag)
        say("ready")
        var (number, locked) = (UInt64(0), 0)
        while !isOver {
            let line = (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * UInt64($0))) }
            // A write that met a lock has done nothing and is made again; a sync needs no key.
            guard try isOpen({ try line.withUnsafeBytes { try file.write($0, at: Int64(number * 8)) } }) else {
                locked += 1
                continue
            }
            try file.sync()
            number += 1
        }
        say("\(number) \(locked)")
        // Ends as if killed: what is not on the disk now was not acknowledged.
        _exit(0)
    }
}
