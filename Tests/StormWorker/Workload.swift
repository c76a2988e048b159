import DataProtection
import FoundationEssentials
import Glibc
import StormScript
import SystemPackage

/// Work without end: each acknowledged step is a line on stdout.
struct Workload {
    private let keybag: Keybag
    private let name: String
    private let seed: UInt64
    private let first: Int
    private let rest: [String]

    struct Unknown: Error { let name: String }

    /// - Parameter arguments: WORKLOAD SEED FIRST ARGUMENT…
    init(_ keybag: Keybag, _ arguments: [String]) throws {
        guard arguments.count >= 4, let seed = UInt64(arguments[1]), let first = Int(arguments[2]) else {
            throw Unknown(name: arguments.joined(separator: " "))
        }
        self.keybag = keybag
        name = arguments[0]
        self.seed = seed
        self.first = first
        rest = Array(arguments[3...])
    }

    func run() throws {
        if let profile = StormProfile(rawValue: name) { return try commits(profile) }
        switch name {
        case "new": try newFiles()
        case "replace": try replacements()
        case "class": try classChanges()
        case "passcode": try passcodes()
        case "recover": try recoveries()
        case "rotate": try rotations()
        case "rotate-once": try rotateOnce()
        case "rekey": try rekeys()
        case "convert": try conversions()
        case "read": try reads()
        case "raise": try raises()
        case "log": try logLines()
        case "join": try join()
        case "upgrade": try upgrade()
        case "upgrade-once": try upgradeOnce()
        default: throw Unknown(name: name)
        }
    }

    private var path: FilePath { FilePath(rest[0]) }

    /// With `PROTECTFS_IN_STEP` in the environment the next step waits for a byte.
    private func acknowledge(_ number: Int) {
        say("\(number)")
        if isInStep { _ = getchar() }
    }

    private let isInStep = getenv("PROTECTFS_IN_STEP") != nil

    /// One handle, one sync a commit. With a second argument the handle is closed and opened after that many commits.
    private func commits(_ profile: StormProfile) throws {
        let every = rest.count > 1 ? Int(rest[1])! : Int.max
        var file = try ProtectedFile.open(path, .readWrite, keybag: keybag)
        for number in first... {
            for step in profile.steps(ofCommit: number, seed: seed) { try file.perform(step) }
            if number % every == every - 1 {
                try file.close()
                file = try ProtectedFile.open(path, .readWrite, keybag: keybag)
            } else {
                try file.sync()
            }
            acknowledge(number)
        }
    }

    /// New files `0`, `1`, … in a directory, of every size and by every way to make one.
    private func newFiles() throws {
        for number in first... {
            let file = path.appending("\(number)")
            let bytes = newFileBytes(number, seed: seed)
            switch number % 3 {
            case 0:
                let url = URL(fileURLWithPath: file.string)
                try Data(bytes).write(to: url, options: [.atomic, .completeFileProtection], protectedBy: keybag)
            case 1:
                let writer = try ProtectedFileWriter(file, as: .completeUnlessOpen, keybag: keybag, replacing: false)
                try bytes.withUnsafeBytes { try writer.append($0) }
                try writer.finish()
            default:
                let handle = try ProtectedFile.open(
                    file, .readWrite, create: .completeUntilFirstUserAuthentication, keybag: keybag)
                try bytes.withUnsafeBytes { try handle.write($0, at: 0) }
                try handle.close()
            }
            acknowledge(number)
        }
    }

    /// One file, replaced as a whole.
    private func replacements() throws {
        for number in first... {
            let url = URL(fileURLWithPath: path.string)
            try Data(newFileBytes(number, seed: seed)).write(to: url, options: [.atomic], protectedBy: keybag)
            acknowledge(number)
        }
    }

    /// One file, from class to class.
    private func classChanges() throws {
        let classes = rest.dropFirst().compactMap { ProtectionClass(name: $0) }
        for number in first... {
            try keybag.setProtection(classes[number % classes.count], ofItemAt: path)
            acknowledge(number)
        }
    }

    /// From passcode to passcode.
    private func passcodes() throws {
        for number in first... {
            try keybag.changePasscode(from: passcode(number), to: passcode(number + 1), iterations: 1000)
            acknowledge(number + 1)
        }
    }

    /// From recovery code to recovery code, of those in the arguments, and from passcode to passcode.
    private func recoveries() throws {
        for number in first... {
            let opened = try keybag.open(recoveryCode: code(number))
            try opened.recover(passcode: passcode(number + 1), 1000, recoveryCode: code(number + 1), 1000)
            acknowledge(number + 1)
        }
    }

    /// From passcode to passcode with new class keys each time; the files in the arguments are rewrapped, and the old keys forgotten.
    private func rotations() throws {
        for number in first... {
            try keybag.open(passcode: passcode(number)).rotate(passcode: passcode(number + 1), iterations: 1000)
            for file in rest { try keybag.rewrap(fileAt: FilePath(file)) }
            try keybag.open(passcode: passcode(number + 1)).forgetRetiredKeys(before: .max)
            acknowledge(number + 1)
        }
    }

    /// The same, once; a line with what failed: `rotate`, `rewrap`, `forget` or nothing, and why.
    private func rotateOnce() throws {
        var step = "rotate"
        do throws(DataProtectionError) {
            try keybag.open(passcode: passcode(0)).rotate(passcode: passcode(1), iterations: 1000)
            step = "rewrap"
            for file in rest { try keybag.rewrap(fileAt: FilePath(file)) }
            step = "forget"
            try keybag.open(passcode: passcode(1)).forgetRetiredKeys(before: .max)
            say("nothing")
        } catch {
            say("\(step) \(error)")
        }
    }

    /// One file, under a new key each time.
    private func rekeys() throws {
        for number in first... {
            try keybag.rekey(fileAt: path)
            acknowledge(number)
        }
    }

    private func code(_ number: Int) throws -> RecoveryCode {
        let text = Array(rest[number % rest.count].utf8)
        return try RecoveryCode(reading: SecretBytes(byteCount: text.count) { $0.copyBytes(from: text) })
    }

    private func passcode(_ number: Int) -> SecretBytes {
        let text = Array("passcode \(number)".utf8)
        return SecretBytes(byteCount: text.count) { $0.copyBytes(from: text) }
    }

    /// One file to and fro: protected after even numbers.
    private func conversions() throws {
        for number in first... {
            if number % 2 == 0 { try keybag.protect(path, as: .complete) } else { try keybag.unprotect(path) }
            acknowledge(number)
        }
    }

    /// New files that are to be raised when they are closed, by every way to make one.
    private func raises() throws {
        for number in first... {
            let file = path.appending("\(number)")
            let bytes = newFileBytes(number, seed: seed)
            if number % 2 == 0 {
                let writer = try ProtectedFileWriter(
                    file, as: .completeUnlessOpen, raiseTo: .complete, keybag: keybag, replacing: false)
                try bytes.withUnsafeBytes { try writer.append($0) }
                try writer.finish()
            } else {
                let handle = try ProtectedFile.create(
                    file, as: .completeUnlessOpen, raiseTo: .complete, keybag: keybag)
                try bytes.withUnsafeBytes { try handle.write($0, at: 0) }
                try handle.close()
            }
            acknowledge(number)
        }
    }

    /// A line a number, in a log that goes on through locks. With a second argument it is rotated after that many lines.
    private func logLines() throws {
        let log = try SegmentedLog(path, keybag: keybag)
        let every = rest.count > 1 ? Int(rest[1])! : Int.max
        for number in first... {
            if number % every == every - 1 { try log.rotate(keeping: 1000) }
            // Some lines are larger than what a head holds.
            let filling = String(repeating: "x", count: number % 7 == 0 ? 5000 : number % 50)
            try log.append(line: "\(number) \(filling)")
            acknowledge(number)
        }
    }

    /// The queue, once.
    private func join() throws {
        try keybag.performQueuedWork()
        acknowledge(first)
    }

    /// A directory to `complete`; a number each file that was not, and more of them when all is done.
    private func upgrade() throws {
        var number = first
        let pass = try UpgradePass(keybag, path, to: .complete, rules: nil, options: UpgradeOptions())
        _ = pass.run { result in
            if result.outcome == .unchanged { return }  // of an earlier one
            acknowledge(number)
            number += 1
        }
        while true {
            acknowledge(number)
            number += 1
            usleep(1000)
        }
    }

    /// The same, one file at a time; a line `CONVERTED UNCHANGED FAILED ERRNO`.
    private func upgradeOnce() throws {
        var options = UpgradeOptions()
        options.jobs = 1
        let summary = try UpgradePass(keybag, path, to: .complete, rules: nil, options: options).run { _ in }
        let errno = summary.lastError?.errno.rawValue ?? 0
        say("\(summary.converted) \(summary.unchanged) \(summary.failures.count) \(errno)")
    }

    /// Reads a file over and over beside its writer; a line is `COUNT` of full reads, or `error …` and the end.
    private func reads() throws {
        var file = try ProtectedFile.open(path, keybag: keybag)
        for number in first... {
            _ = try file.bytes(at: 0, count: Int(try file.size()))
            _ = try ProtectedFileInfo(of: path)
            if number % 8 == 0 { file = try ProtectedFile.open(path, keybag: keybag) }
            acknowledge(number)
        }
    }
}
