import Foundation
import SystemPackage
import Testing

/// What a command told the kernel: every system call but those that only read into its memory.
struct SystemCallTrace {
    /// One line of strace(1).
    struct Call {
        /// As strace shows it, with every string in hexadecimal.
        let text: Substring
        let name: Substring

        init?(_ line: Substring) {
            // `1234 name(…) = result`; also `1234 +++ exited with 0 +++` and `1234 <... name resumed>…`.
            let rest = line.drop { $0.isNumber }.drop { $0 == " " }
            guard let end = rest.firstIndex(of: "("), rest.first?.isLetter == true || rest.first == "_" else {
                return nil
            }
            text = rest
            name = rest[..<end]
        }

        /// The bytes of all strings: names, and what is written.
        var strings: [[UInt8]] {
            text.utf8.split(separator: UInt8(ascii: "\""), omittingEmptySubsequences: false).enumerated()
                .filter { $0.offset % 2 == 1 }.map { Self.bytes($0.element) }
        }

        /// The path of the descriptor that the call returned.
        var openedPath: String? {
            guard let result = text.range(of: ") = ", options: .backwards) else { return nil }
            let fields = text[result.upperBound...].split(separator: "<", maxSplits: 1)
            guard fields.count == 2, let end = fields[1].firstIndex(of: ">") else { return nil }
            return String(decoding: Self.bytes(fields[1][..<end].utf8), as: UTF8.self)
        }

        /// The paths of all descriptors that the call names, and of the one that it returns.
        var descriptorPaths: [String] {
            text.split(separator: "<").dropFirst().compactMap { part in
                guard let end = part.firstIndex(of: ">") else { return nil }
                // A pipe is shown as it is.
                guard part.hasPrefix("\\x") else { return String(part[..<end]) }
                return String(decoding: Self.bytes(part[..<end].utf8), as: UTF8.self)
            }
        }

        /// `\x41\x42`
        private static func bytes(_ text: Substring.UTF8View) -> [UInt8] {
            text.split(separator: UInt8(ascii: "\\")).compactMap {
                UInt8(String(decoding: $0.dropFirst(), as: UTF8.self), radix: 16)
            }
        }
    }

    let run: EndToEndRun
    let calls: [Call]

    /// Runs `protectfs` with these arguments under strace.
    init(_ arguments: [String], by user: EndToEndUser, input: [UInt8] = []) throws {
        let directory = try EndToEndDirectory()
        let log = directory.path.appending("strace")
        let temporary = user.home.appending("tmp")
        if !FileManager.default.fileExists(atPath: temporary.string) { try temporary.makeDirectory() }
        let reads = "read,pread64,readv,preadv,preadv2,recvfrom,recvmsg"
        run = try user.run(
            [
                "strace", "-f", "-v", "-xx", "-y", "-s", "4194304", "-o", log.string, "-e", "trace=!\(reads)", "-E",
                "TMPDIR=\(temporary)", EndToEndUser.builtPrograms.appending("protectfs").string,
            ] + arguments, input: input)
        guard run.status == 0 else { throw EndToEndUser.Unexpected(run) }
        let text = String(decoding: try log.storedBytes(), as: UTF8.self)
        calls = text.split(separator: "\n").compactMap { Call($0) }
        try #require(calls.contains { $0.name == "execve" }, "\(run)")
        try #require(calls.contains { $0.name == "exit_group" }, "\(run)")
    }

    /// Whether strace can be used here.
    static let isPossible: Bool = {
        let environment = ["PATH": "/usr/bin:/bin"]
        return (try? EndToEndRun(["strace", "-o", "/dev/null", "true"], environment: environment))?.status == 0
    }()

    static let whyNot: Comment =
        "strace is not installed, or ptrace(2) is not allowed, or this is not root, who alone sees what a process writes that refuses to be dumped"

    /// The calls with a string that holds a piece of a secret.
    func calls(revealing secret: Secret) -> [Call] {
        calls.filter { $0.strings.contains { secret.isIn($0) } }
    }

    /// Expects that data went into files of the user's home directory only, and in no other way than by writing.
    func expectNoOtherWays(_ user: EndToEndUser, at location: SourceLocation = #_sourceLocation) {
        let opens = calls.filter { ["open", "openat", "openat2", "creat"].contains($0.name) }
        #expect(!opens.isEmpty, sourceLocation: location)
        for call in opens where ["O_WRONLY", "O_RDWR", "O_CREAT", "creat"].contains(where: { call.text.contains($0) }) {
            guard let path = call.openedPath else { continue }  // it failed
            #expect(
                path.hasPrefix(user.home.string + "/") || ["/dev/null", "/dev/tty"].contains(path), "\(path)",
                sourceLocation: location)
        }
        let writes = ["write", "pwrite64", "writev", "pwritev", "pwritev2"]
        for call in calls {
            // A buffer that strace cannot read would hide what is in it.
            if writes.contains(String(call.name)), !call.text.hasSuffix("= 0") {
                #expect(call.text.contains("\""), "\(call.text.prefix(300))", sourceLocation: location)
            }
            if call.name == "mmap", call.text.contains("PROT_WRITE"), call.text.contains("MAP_SHARED") {
                let secretMemory = Array("/secretmem".utf8).map { "\\x" + String($0, radix: 16) }.joined()
                #expect(call.text.contains(secretMemory), "\(call.text)", sourceLocation: location)
            }
            #expect(
                ![
                    "splice", "tee", "vmsplice", "sendfile", "copy_file_range", "io_uring_setup", "io_submit",
                    "process_vm_writev", "memfd_create", "socket", "msgsnd", "shmget",
                ].contains(String(call.name)), "\(call.text.prefix(300))", sourceLocation: location)
        }
    }
}

/// Bytes of which not even a piece of eight may be seen.
struct Secret {
    private let pieces: Set<UInt64>
    /// As often as needed, one after the other.
    let bytes: [UInt8]

    /// - Parameter repeats: the secret is found in any rotation too.
    init(_ bytes: [UInt8], repeats: Bool = false) {
        self.bytes = bytes
        let all = repeats ? bytes + bytes.prefix(7) : bytes
        pieces = Set((0...all.count - 8).map { start in all[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) } })
    }

    /// As plaintext of a file.
    func repeated(_ count: Int) -> [UInt8] { (0..<count).map { bytes[$0 % bytes.count] } }

    func isIn(_ data: [UInt8]) -> Bool {
        guard data.count >= 8 else { return false }
        return data.withUnsafeBufferPointer { data in
            var window: UInt64 = 0
            for (index, byte) in data.enumerated() {
                window = window << 8 | UInt64(byte)
                if index >= 7, pieces.contains(window) { return true }
            }
            return false
        }
    }
}
