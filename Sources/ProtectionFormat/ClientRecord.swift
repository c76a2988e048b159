/// `run/clients/…`: a process that has protected files open, or was given their plaintext. FORMAT.md §2.13, 256 bytes.
public struct ClientRecord: Hashable, Sendable {
    /// The process, as it is numbered where it runs.
    public var pid: Int32
    /// The name of its executable, for people: 208 bytes of UTF-8 at most.
    public var program: String
    /// How many handles on class A files it has.
    public var completeHandles: UInt32 = 0
    /// How many handles on class B files it has.
    public var unlessOpenHandles: UInt32 = 0
    /// The number of class A and B files whose plaintext the process was given.
    public var plaintextFiles: UInt32 = 0
    /// The counter (FORMAT.md §2.4) of the last lock of which nothing is left in this process.
    public var acknowledged: UInt64 = 0

    /// The bytes of the file.
    public static let length = 256
    private static let magic = Array("PFSCLIEN".utf8)
    private static let programLength = 208

    /// A process without handles.
    public init(pid: Int32, program: String) { (self.pid, self.program) = (pid, program) }

    /// What the file says; nil if that is none of ours.
    public init?(decoding bytes: [UInt8]) {
        var reader = ByteReader(bytes, layer: .keybag)
        guard bytes.count == Self.length, (try? reader.take(8)) == Self.magic,
            let acknowledged = try? reader.integer(UInt64.self), let complete = try? reader.integer(UInt32.self),
            let unlessOpen = try? reader.integer(UInt32.self), let pid = try? reader.integer(UInt32.self),
            let plaintext = try? reader.integer(UInt32.self), (try? reader.zero(16)) != nil,
            let name = try? reader.take(Self.programLength), pid <= UInt32(Int32.max)
        else { return nil }
        self.init(pid: Int32(pid), program: String(decoding: name.prefix { $0 != 0 }, as: UTF8.self))
        (self.acknowledged, completeHandles, unlessOpenHandles) = (acknowledged, complete, unlessOpen)
        plaintextFiles = plaintext
    }

    /// The stored form.
    public var encoded: [UInt8] {
        var bytes = Self.magic
        bytes.append(littleEndian: acknowledged)
        bytes.append(littleEndian: completeHandles)
        bytes.append(littleEndian: unlessOpenHandles)
        bytes.append(littleEndian: UInt32(bitPattern: pid))
        bytes.append(littleEndian: plaintextFiles)
        bytes.pad(to: Self.length - Self.programLength)
        bytes += program.utf8.prefix(Self.programLength)
        bytes.pad(to: Self.length)
        return bytes
    }
}
