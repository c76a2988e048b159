import FuseSession
import MountRules
import ProtectionKeys
import SystemPackage

/// The classes of files that have lost their names, also in the record of the connection: another server goes on with them.
///
/// An entry is its own length (4 bytes), a class (1 byte), and a path from the root of the mount.
struct RecordedClasses: Sendable {
    private var classes = RememberedClasses()
    private let record: ConnectionRecord?
    /// The length of the log, in bytes, at which it is written anew.
    private var limit = Self.least
    private static let least = 1 << 20
    private static let headLength = 5

    /// - Parameter record: of a connection that had another server, or of a new one.
    init(_ record: ConnectionRecord?) {
        self.record = record
        guard let log = record?.bytes(of: .classes) else { return }
        var start = 0
        while log.count - start >= Self.headLength {
            let length = Int(log.loadUnaligned(fromByteOffset: start, as: UInt32.self))
            guard (Self.headLength...log.count - start).contains(length),
                let protectionClass = ProtectionClass(rawValue: log[start + 4])
            else { return }
            classes.remember(protectionClass, as: FilePath(bytes: Array(log[start + Self.headLength..<start + length])))
            start += length
        }
    }

    mutating func remember(_ protectionClass: ProtectionClass, as name: FilePath) {
        classes.remember(protectionClass, as: name)
        note(Self.entry(name, protectionClass))
    }

    func protectionClass(of name: FilePath) -> ProtectionClass? { classes.protectionClass(of: name) }

    mutating func moved(directory: FilePath, to new: FilePath) {
        note(classes.moved(directory: directory, to: new).flatMap(Self.entry))
    }

    private static func entry(_ name: FilePath, _ protectionClass: ProtectionClass) -> [UInt8] {
        let path = name.bytes
        return UInt32(headLength + path.count).bytes + [protectionClass.rawValue] + path
    }

    private mutating func note(_ bytes: [UInt8]) {
        guard let record, !bytes.isEmpty else { return }
        let length = record.append(bytes, to: .classes)
        if let length, length <= limit { return }
        let log = classes.all.flatMap(Self.entry)
        limit = max(Self.least, 3 * log.count)
        _ = record.replace(.classes, by: log)  // it is shorter than a log may be, whatever the names
    }
}

extension UInt32 {
    fileprivate var bytes: [UInt8] { withUnsafeBytes(of: self) { Array($0) } }
}
