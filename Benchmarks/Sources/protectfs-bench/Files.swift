import DataProtection
import FoundationEssentials
import Glibc

/// Many small files, and many small reads.
enum Files {
    private static let size = 4096

    static func create(in directory: FilePath, count: Int) throws {
        let keybag = try Keybag.user
        let data = Data(repeating: 1, count: size)
        let rounds = try Rounds(1, operations: 1) {
            for index in 0..<count {
                let url = URL(filePath: directory.appending("\(index)").string)
                try data.write(to: url, options: [.atomic, .completeFileProtection], protectedBy: keybag)
            }
        }
        rounds.report()
    }

    /// Reads of a small file by somebody who keeps nothing open, and the question that programs ask before. Processor time of this thread.
    static func smallReads(in directory: FilePath) throws {
        let keybag = try Keybag.user
        let paths = (none: directory.appending("none"), complete: directory.appending("complete"))
        let plain = directory.appending("plain")
        try make(paths.none, .none, keybag)
        try make(paths.complete, .complete, keybag)
        let file = PlainFile(plain, flags: O_RDWR | O_CREAT)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 64)
        file.write(UnsafeRawBufferPointer(buffer), at: 0)
        func openReadClose(_ path: FilePath) throws {
            let file = try ProtectedFile.open(path, keybag: keybag)
            let count = try file.read(into: buffer, at: 0)
            precondition(count == size)
            try file.close()
        }
        func readWhole(_ path: FilePath) throws {
            let data = try Data(contentsOf: URL(filePath: path.string), protectedBy: keybag)
            precondition(data.count == size)
        }
        let loops: [(name: String, body: () throws -> Void)] = [
            (
                "plain",
                {
                    let file = PlainFile(plain, flags: O_RDONLY)
                    file.read(buffer, at: 0)
                    file.close()
                }
            ),
            ("none", { try openReadClose(paths.none) }),
            ("complete", { try openReadClose(paths.complete) }),
            ("whole none", { try readWhole(paths.none) }),
            ("whole complete", { try readWhole(paths.complete) }),
            ("available", { precondition(keybag.isProtectedDataAvailable) }),
        ]
        var seconds: [String: [Double]] = [:]
        for _ in 0..<7 {
            for (name, body) in loops {
                let taken = try Rounds.seconds(of: CLOCK_THREAD_CPUTIME_ID) { for _ in 0..<2000 { try body() } }
                seconds[name, default: []].append(taken / 2000)
            }
        }
        print("{\(seconds.map { "\"\($0)\": \($1)" }.joined(separator: ", "))}")
    }

    static func handles(in directory: FilePath) throws {
        let keybag = try Keybag.user
        let paths = (directory.appending("complete"), directory.appending("none"))
        try make(paths.0, .complete, keybag)
        try make(paths.1, .none, keybag)
        let complete = try ProtectedFile.open(paths.0, keybag: keybag)
        let none = try ProtectedFile.open(paths.1, keybag: keybag)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 64)
        func read(_ file: ProtectedFile) throws {
            for _ in 0..<20_000 {
                let count = try file.read(into: buffer, at: 0)
                precondition(count == size)
            }
        }
        try Rounds(7, operations: 20_000, ours: { try read(complete) }, peer: { try read(none) }).report()
    }

    /// Opens so many `complete` handles, says `ready`, and keeps them until nobody writes to standard input any more.
    static func hold(in directory: FilePath, count: Int) throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let keybag = try Keybag.user
        let path = directory.appending("held")
        try make(path, .complete, keybag)
        let handles = try (0..<count).map { _ in try ProtectedFile.open(path, keybag: keybag) }
        print("ready")
        fflush(nil)
        _ = readLine()
        for handle in handles { try handle.close() }
    }

    private static func make(_ path: FilePath, _ protectionClass: ProtectionClass, _ keybag: Keybag) throws {
        let file = try ProtectedFile.create(path, as: protectionClass, keybag: keybag)
        try [UInt8](repeating: 1, count: size).withUnsafeBytes { try file.write($0, at: 0) }
        try file.close()
    }
}
