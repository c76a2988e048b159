import Foundation

/// A TPM 2.0 of one test alone: a process of swtpm(8) on loopback, ended by its process id when this object goes.
///
/// It has no resource manager: what a killed program has left in it is flushed by ``flush()`` or ``restart()``.
public final class EmulatedTPM {
    /// The port of its commands; the next one is that of its control channel.
    public let port: UInt16
    private let state: String
    private let reservation: Int32
    private var process: Process?

    private static let programs = [
        "/usr/bin/swtpm", "/usr/bin/tpm2_clear", "/usr/bin/tpm2_changeauth", "/usr/bin/tpm2_dictionarylockout",
        "/usr/bin/tpm2_flushcontext", "/usr/bin/tpm2_nvundefine", "/usr/bin/tpm2_nvdefine", "/usr/bin/tpm2_getcap",
        "/usr/bin/tpm2_shutdown",
    ]

    /// Nil if all that it needs is here.
    public static let whyNot: String? = programs.first { access($0, X_OK) != 0 }.map { "\($0) is not here" }

    /// What went wrong while a test was being prepared.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// Starts one that nobody has used.
    public init() throws {
        (port, reservation) = try Self.reservePorts()
        var template = Array("/tmp/protectfs-tpm-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(description: "mkdtemp: \(errno)") }
        state = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        try start()
    }

    deinit {
        end()
        close(reservation)
        try? FileManager.default.removeItem(atPath: state)
    }

    // MARK: life

    private func start() throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/swtpm")
        process.arguments = [
            "socket", "--tpm2", "--tpmstate", "dir=\(state)", "--flags", "not-need-init,startup-clear",
            "--server", "type=tcp,port=\(port),bindaddr=127.0.0.1",
            "--ctrl", "type=tcp,port=\(port + 1),bindaddr=127.0.0.1",
        ]
        (process.standardInput, process.standardOutput) = (FileHandle.nullDevice, FileHandle.nullDevice)
        process.standardError = FileHandle.nullDevice
        try process.run()
        self.process = process
        for _ in 0..<1000 {
            // It serves one connection at a time, and a test must not take it: the control channel is another one.
            // It may not be done with that one when a program comes, so one has to succeed first.
            if Self.isServed(port + 1), (try? run("getcap", "properties-fixed")) != nil { return }
            guard process.isRunning else { break }
            usleep(10_000)
        }
        throw Failure(description: "swtpm does not answer")
    }

    /// Ends it as a power cut would, or properly before a new start.
    public func end() {
        guard let process, process.isRunning else { return }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        self.process = nil
    }

    /// Shuts it down properly and starts it again: the TPM of the same machine after a boot.
    public func restart() throws {
        try run("shutdown", "-c")
        end()
        try start()
    }

    /// Starts it again after ``end()``.
    public func startAgain() throws { try start() }

    /// Removes the sessions and keys that a killed program has left.
    public func flush() throws {
        try run("flushcontext", "-t")
        try run("flushcontext", "-l")
    }

    // MARK: what tpm2-tools do to it

    /// Runs `tpm2_COMMAND`.
    ///
    /// - Returns: its standard output.
    @discardableResult
    public func run(_ command: String, _ arguments: String...) throws -> String {
        try Self.run(command, arguments, port: port)
    }

    /// The same through a tap.
    public static func run(_ command: String, _ arguments: [String], port: UInt16) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/tpm2_\(command)")
        process.arguments = arguments
        process.environment = ["TPM2TOOLS_TCTI": "swtpm:host=127.0.0.1,port=\(port)", "PATH": "/usr/bin:/bin"]
        let output = Pipe()
        (process.standardInput, process.standardOutput) = (FileHandle.nullDevice, output)
        process.standardError = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failure(description: "tpm2_\(command) ended with status \(process.terminationStatus)")
        }
        return text
    }

    /// Accepts `tries` wrong values, and forgets one every `seconds`.
    public func limit(tries: Int, seconds: Int) throws {
        try run("dictionarylockout", "-s", "-n", "\(tries)", "-t", "\(seconds)", "-l", "\(seconds)")
    }

    /// The handles of its NV indices in the part of protectfs.
    public func indices() throws -> [UInt32] {
        let handles = try run("getcap", "handles-nv-index").matches(of: #/0x(?<digits>[0-9A-Fa-f]{1,8})/#)
        return handles.compactMap { UInt32($0.output.digits, radix: 16) }.filter { $0 >> 16 == 0x018D }
    }

    /// Defines indices until there is room for none.
    ///
    /// - Returns: their handles.
    public func fill() throws -> [String] {
        var handles: [String] = []
        for size in ["2048", "256", "32", "1"] {
            while let defined = try? run("nvdefine", "-s", size, "-a", "authread|authwrite") {
                guard let handle = defined.firstMatch(of: #/0x[0-9A-Fa-f]+/#), handles.count < 1000 else {
                    throw Failure(description: "tpm2_nvdefine says \(defined)")
                }
                handles.append(String(handle.output))
            }
        }
        return handles
    }

    /// How many wrong values it counts now.
    public func failedTries() throws -> Int? {
        try run("getcap", "properties-variable").firstMatch(of: #/TPM2_PT_LOCKOUT_COUNTER: 0x(?<digits>[0-9A-Fa-f]+)/#)
            .flatMap { Int($0.output.digits, radix: 16) }
    }

    // MARK: ports

    /// Two ports, one behind the other, below those that the kernel gives to others. A name in the abstract namespace keeps other test
    /// processes from them.
    static func reservePorts() throws -> (UInt16, Int32) {
        for _ in 0..<1000 {
            let port = UInt16.random(in: 10_000..<16_000) * 2
            let reservation = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            guard reservation >= 0 else { throw Failure(description: "socket: \(errno)") }
            if bind(reservation, toName: "protectfs-test-tpm-\(port)"), isFree(port), isFree(port + 1) {
                return (port, reservation)
            }
            close(reservation)
        }
        throw Failure(description: "no two free ports")
    }

    private static func bind(_ descriptor: Int32, toName name: String) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { path in
            path.baseAddress!.advanced(by: 1).copyMemory(from: Array(name.utf8), byteCount: name.utf8.count)
        }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + 1 + name.utf8.count)
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Foundation.bind(descriptor, $0, length) == 0 }
        }
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = newSocket()
        defer { close(descriptor) }
        return isBound(descriptor, to: port)
    }

    private static func isServed(_ port: UInt16) -> Bool {
        let descriptor = newSocket()
        defer { close(descriptor) }
        return isConnected(descriptor, to: port)
    }

    static func newSocket() -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        // As swtpm does: what was connected there a moment ago is no obstacle.
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        return descriptor
    }

    static func isBound(_ descriptor: Int32, to port: UInt16) -> Bool {
        withLoopback(port) { Foundation.bind(descriptor, $0, $1) == 0 }
    }

    static func isConnected(_ descriptor: Int32, to port: UInt16) -> Bool {
        withLoopback(port) { Foundation.connect(descriptor, $0, $1) == 0 }
    }

    private static func withLoopback(_ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Bool) -> Bool {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
