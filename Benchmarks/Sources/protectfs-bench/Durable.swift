import DataProtection
import Glibc

/// Small writes, each on the disk before the next one.
enum Durable {
    private static let operations = 300
    private static let size = 64 << 20

    static func append(in directory: FilePath) throws {
        let file = try ProtectedFile.create(directory.appending("log"), as: .completeUnlessOpen, keybag: .user)
        let plain = PlainFile(directory.appending("plain"), flags: O_RDWR | O_CREAT)
        let line = [UInt8](repeating: 0x61, count: 64)
        var offsets = (ours: 0, plain: 0)
        try Rounds(
            5, operations: operations,
            ours: {
                for _ in 0..<operations {
                    try line.withUnsafeBytes { try file.write($0, at: Int64(offsets.ours)) }
                    try file.sync()
                    offsets.ours += line.count
                }
            },
            peer: {
                for _ in 0..<operations {
                    line.withUnsafeBytes { plain.write($0, at: offsets.plain) }
                    plain.sync()
                    offsets.plain += line.count
                }
            }
        ).report()
        try file.close()
    }

    static func overwrite(in directory: FilePath) throws {
        let file = try ProtectedFile.create(directory.appending("ours"), as: .complete, keybag: .user)
        let plain = PlainFile(directory.appending("plain"), flags: O_RDWR | O_CREAT)
        let piece = [UInt8](repeating: 1, count: 1 << 20)
        for offset in stride(from: 0, to: size, by: piece.count) {
            try piece.withUnsafeBytes { try file.write($0, at: Int64(offset)) }
            piece.withUnsafeBytes { plain.write($0, at: offset) }
        }
        try file.sync()
        plain.sync()
        let page = [UInt8](repeating: 2, count: 4096)
        func place() -> Int { Int.random(in: 0..<size / page.count) * page.count }
        try Rounds(
            5, operations: operations,
            ours: {
                for _ in 0..<operations {
                    try page.withUnsafeBytes { try file.write($0, at: Int64(place())) }
                    try file.sync()
                }
            },
            peer: {
                for _ in 0..<operations {
                    page.withUnsafeBytes { plain.write($0, at: place()) }
                    plain.sync()
                }
            }
        ).report()
        try file.close()
    }
}
