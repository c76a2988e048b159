package import DataProtection
import Glibc
package import SystemPackage

/// The command, as a process for everything that is asked of it.
package final class CommandSubject: Subject {
    private let stage: Stage
    private let program: FilePath
    private let environment: [[UInt8]]
    /// `lock --grace`, which waits.
    private var waitingLock: CommandProcess?

    /// - Parameter program: the command, `protectfs`: nothing is searched in PATH.
    package init(_ stage: Stage, program: FilePath) {
        (self.stage, self.program) = (stage, program)
        environment = Self.environment(stage)
    }

    // MARK: lock states

    package func enter(_ moment: Moment) throws {
        try stage.enter(moment) {
            endWaitingLock()
            switch moment {
            case .beforeFirstUnlock: try stage.forgetKeys()  // what a boot does; no verb does it
            case .unlocked: try unlock()
            case .grace:
                try unlock()
                let lock = try start(["lock", "--grace", "60"])
                waitingLock = lock
                try Self.wait(while: lock) { try stage.isIn(.grace) }
            case .locked:
                if try stage.keybag.state() == .beforeFirstUnlock { try unlock() }
                try run(["lock"])
            }
        }
    }

    /// It says that it was interrupted, which is what is wanted here.
    private func endWaitingLock() {
        waitingLock?.terminate()
        _ = waitingLock?.wait()
        waitingLock = nil
    }

    private func unlock() throws {
        let unlock = try start(["unlock", "--passcode-fd", "0"])
        try unlock.send { descriptor throws(DataProtectionError) in try stage.writePasscode(to: descriptor) }
        try unlock.finish()
    }

    // MARK: by path

    package func create(_ path: FilePath, as protectionClass: ProtectionClass?, _ bytes: [UInt8]) throws {
        let option = protectionClass.map { ["--class", $0.shortName] } ?? []
        try run(["write"] + option, path, input: bytes)
    }

    package func read(_ path: FilePath) throws -> [UInt8] { try run(["cat"], path) }

    package func write(_ bytes: [UInt8], to path: FilePath, at offset: Int) throws {
        throw NotApplicable("no verb writes into the middle of a file")
    }

    package func append(_ bytes: [UInt8], to path: FilePath) throws {
        try run(["write", "--append"], path, input: bytes)
    }

    package func empty(_ path: FilePath, andWrite bytes: [UInt8]) throws {
        throw NotApplicable("no verb empties a file that is there: write replaces it")
    }

    package func truncate(_ path: FilePath, to size: Int) throws { throw NotApplicable("no verb cuts a file") }

    package func replace(_ path: FilePath, by bytes: [UInt8]) throws {
        guard try protectionClass(of: path) != .none else {
            throw NotApplicable("write makes a complete file of one that is none")
        }
        try run(["write"], path, input: bytes)
    }

    package func copy(_ source: FilePath, to target: FilePath) throws {
        let bytes = try run(["cat"], source)
        try create(target, as: try protectionClass(of: source), bytes)
    }

    /// As cp(1) does.
    package func copyCiphertext(_ source: FilePath, to target: FilePath) throws {
        try RawFile.make(target, try RawFile.bytes(of: source))
        guard try protectionClass(of: target) == protectionClass(of: source) else {
            throw Contradiction("the copy has another class")
        }
    }

    package func protect(_ path: FilePath, as protectionClass: ProtectionClass) throws {
        try run(["protect", "--class", protectionClass.shortName], path)
    }

    package func unprotect(_ path: FilePath) throws { try run(["unprotect"], path) }

    package func rekey(_ path: FilePath) throws { try run(["class", "--rekey"], path) }

    package func size(of path: FilePath) throws -> Int {
        let fields = try text(["ls"], path).split(separator: " ", omittingEmptySubsequences: true)
        guard fields.count > 2, let size = Int(fields[1]) else { throw Contradiction("ls says \(fields)") }
        return size
    }

    package func protectionClass(of path: FilePath) throws -> ProtectionClass {
        let name = try text(["class"], path)
        guard let found = ProtectionClass(name: name) else { throw Contradiction("class says \(name)") }
        return found
    }

    package func list(_ directory: FilePath) throws -> [(name: String, protectionClass: ProtectionClass?)] {
        try text(["ls"], directory).split(separator: "\n").map { line in
            let fields = line.split(separator: " ", omittingEmptySubsequences: true).map(String.init)
            return (String(fields[2].split(separator: "/").last ?? ""), ProtectionClass(name: fields[0]))
        }
    }

    package func setClass(_ protectionClass: ProtectionClass, of path: FilePath) throws {
        var status = Glibc.stat()
        let isDirectory = path.withPlatformString { lstat($0, &status) } == 0 && status.st_mode & S_IFMT == S_IFDIR
        if isDirectory, protectionClass == .none {
            throw NotApplicable("the command refuses none as a directory's default: it would not be followed")
        }
        try run(["class", "--allow-weaker"], path, [protectionClass.shortName])
    }

    // MARK: secrets

    package func addItem(_ account: String, as protectionClass: ProtectionClass, _ bytes: [UInt8]) throws {
        let accessibility = protectionClass == .complete ? "when-unlocked" : "after-first-unlock"
        try secret("add", account, ["--accessibility", accessibility, "--raw", "--value-fd", "0"], bytes)
    }

    package func readItem(_ account: String) throws -> [UInt8] { try secret("get", account, ["--raw"]) }

    package func updateItem(_ account: String, _ bytes: [UInt8]) throws {
        try secret("update", account, ["--raw", "--value-fd", "0"], bytes)
    }

    @discardableResult
    private func secret(
        _ verb: String, _ account: String, _ options: [String], _ input: [UInt8] = []
    ) throws -> [UInt8] {
        do {
            return try run(["secret", verb, "--service", "conformance", "--account", account] + options, input: input)
        } catch let refusal as CommandProcess.Refusal where refusal.status == 69 {
            throw NotApplicable("protectfs-secrets is not installed beside the command")
        }
    }

    // MARK: handles

    package func hold(_ path: FilePath, for purpose: Purpose) throws -> any HeldFile {
        switch purpose {
        case .reading: HeldByCat(try start(["cat"], path, output: .stream))
        case .writing: try HeldByAppend(try start(["write", "--append"], path), path, [43], preamble: [43])
        }
    }

    package func holdNew(
        _ path: FilePath, as protectionClass: ProtectionClass, _ bytes: [UInt8]
    ) throws -> any HeldFile {
        try HeldByAppend(
            try start(["write", "--append", "--class", protectionClass.shortName], path), path, bytes, preamble: [])
    }

    // MARK: errors

    package func finding(of error: any Error, at moment: Moment, classes: Set<ProtectionClass>) -> Finding? {
        guard let refusal = error as? CommandProcess.Refusal, refusal.status == 75 else { return nil }
        guard classes.contains(where: { refusal.message.contains(": class \($0.shortName), ") }) else {
            return .other("\(refusal)")
        }
        let words = moment == .beforeFirstUnlock ? "not unlocked since the machine started" : "locked since "
        return refusal.message.contains(words) ? .locked : .other("\(refusal)")
    }

    // MARK: processes

    /// Runs a verb to its end.
    ///
    /// - Parameters:
    ///   - words: the verb and its options.
    ///   - path: the argument behind them.
    ///   - rest: the arguments behind that.
    @discardableResult
    private func run(
        _ words: [String], _ path: FilePath? = nil, _ rest: [String] = [], input: [UInt8] = []
    ) throws -> [UInt8] {
        let process = try start(words, path, rest)
        process.send(input)
        return try process.finish()
    }

    private func text(_ words: [String], _ path: FilePath) throws -> String {
        let output = String(decoding: try run(words, path), as: UTF8.self)
        return output.hasSuffix("\n") ? String(output.dropLast()) : output
    }

    private func start(
        _ words: [String], _ path: FilePath? = nil, _ rest: [String] = [], output: CommandProcess.Output = .whole
    ) throws -> CommandProcess {
        let arguments = words.map { Array($0.utf8) } + (path.map { [$0.bytes] } ?? []) + rest.map { Array($0.utf8) }
        return try CommandProcess([program.bytes] + arguments, environment: environment, output: output)
    }

    /// Waits until something is so; a process that must bring it about may not end before.
    static func wait(while process: CommandProcess, until isSo: () throws -> Bool) throws {
        for _ in 0..<15_000 {
            if try isSo() { return }
            guard process.isRunning else {
                try process.finish()
                throw Contradiction("the command ended too early")
            }
            usleep(2_000)
        }
        throw Contradiction("the command did nothing for 30 seconds")
    }

    /// Nothing of the user's is read or written: not the keybag, not the configuration, not the list of keybags.
    static func environment(_ stage: Stage) -> [[UInt8]] {
        var variables: [[UInt8]] = []
        var next = environ
        while let variable = next.pointee {
            let text = Array(UnsafeRawBufferPointer(start: variable, count: strlen(variable)))
            let ours = ["HOME=", "XDG_", "PROTECTFS_", "SWIFT_BACKTRACE=", "LC_ALL="]
            if !ours.contains(where: { text.starts(with: $0.utf8) }) { variables.append(text) }
            next += 1
        }
        let home = stage.scratch.path.appending("home").bytes
        for name in ["HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
            variables.append(Array("\(name)=".utf8) + home)
        }
        variables.append(Array("PROTECTFS_KEYBAG=".utf8) + stage.keybag.directory.bytes)
        return variables + ["LC_ALL=C", "SWIFT_BACKTRACE=enable=no"].map { Array($0.utf8) }
    }
}
