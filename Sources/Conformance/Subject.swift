package import DataProtection
package import SystemPackage

/// The library or the command, compared with the table: everything that can be asked of either.
///
/// What one of them has not is refused with ``NotApplicable``.
package protocol Subject: AnyObject {
    /// Brings the throw-away keybag into a lock state from any other one.
    func enter(_ moment: Moment) throws

    /// Makes a file; nil: the class is inherited.
    func create(_ path: FilePath, as protectionClass: ProtectionClass?, _ bytes: [UInt8]) throws
    func read(_ path: FilePath) throws -> [UInt8]
    /// Opens the file and writes into it.
    func write(_ bytes: [UInt8], to path: FilePath, at offset: Int) throws
    func append(_ bytes: [UInt8], to path: FilePath) throws
    /// What open(2) with O_TRUNC does, and a first write.
    func empty(_ path: FilePath, andWrite bytes: [UInt8]) throws
    func truncate(_ path: FilePath, to size: Int) throws
    /// A new file in the place of the old one, of the same class.
    func replace(_ path: FilePath, by bytes: [UInt8]) throws
    func copy(_ source: FilePath, to target: FilePath) throws
    func copyCiphertext(_ source: FilePath, to target: FilePath) throws
    func protect(_ path: FilePath, as protectionClass: ProtectionClass) throws
    func unprotect(_ path: FilePath) throws
    /// Under a new file key.
    func rekey(_ path: FilePath) throws

    func size(of path: FilePath) throws -> Int
    func protectionClass(of path: FilePath) throws -> ProtectionClass
    func list(_ directory: FilePath) throws -> [(name: String, protectionClass: ProtectionClass?)]
    /// Of a file or of a directory.
    func setClass(_ protectionClass: ProtectionClass, of path: FilePath) throws

    /// Opens a file and keeps it open.
    func hold(_ path: FilePath, for purpose: Purpose) throws -> any HeldFile
    /// Creates a file, writes to it, makes that last, and keeps it open.
    func holdNew(_ path: FilePath, as protectionClass: ProtectionClass, _ bytes: [UInt8]) throws -> any HeldFile

    /// Keeps a secret that is not there yet, of the accessibility with the lock states of a class.
    func addItem(_ account: String, as protectionClass: ProtectionClass, _ bytes: [UInt8]) throws
    func readItem(_ account: String) throws -> [UInt8]
    func updateItem(_ account: String, _ bytes: [UInt8]) throws

    /// Where the subject finds a file: nothing but the path, unless a mount shows it elsewhere.
    func place(of path: FilePath) -> FilePath

    /// What an error of the subject means; nil: it is not one of *locked* or *refused*.
    func finding(of error: any Error, at moment: Moment, classes: Set<ProtectionClass>) -> Finding?
}

extension Subject {
    package func place(of path: FilePath) -> FilePath { path }
}

/// Secrets, for a subject that has none of its own: the library of files knows nothing of them.
package protocol ItemStore: AnyObject {
    func addItem(_ account: String, as protectionClass: ProtectionClass, _ bytes: [UInt8]) throws
    func readItem(_ account: String) throws -> [UInt8]
    func updateItem(_ account: String, _ bytes: [UInt8]) throws
    /// Whether an error is *locked*, with the right state and class.
    func isLocked(_ error: any Error, _ moment: Moment, _ classes: Set<ProtectionClass>) -> Bool
}

/// What a file is kept open for.
package enum Purpose { case reading, writing }

/// An open file.
package protocol HeldFile: AnyObject {
    /// What opening it has put behind the file's contents.
    var preamble: [UInt8] { get }
    /// Whether it can be used after it said *locked*.
    var worksAgain: Bool { get }
    /// `count` bytes from `offset`.
    func read(at offset: Int, count: Int) throws -> [UInt8]
    func write(_ bytes: [UInt8], at offset: Int) throws
    func append(_ bytes: [UInt8]) throws
    func truncate(to size: Int) throws
    func sync() throws
    /// Maps the first `count` bytes for reading.
    func map(count: Int) throws -> any HeldMapping
    /// Twice is fine.
    func close() throws
}

extension HeldFile {
    package func map(count: Int) throws -> any HeldMapping {
        throw NotApplicable("only files of a mount can be mapped")
    }
}

/// A mapping of an open file.
package protocol HeldMapping: AnyObject {
    /// All of its bytes, as they are now.
    func read() throws -> [UInt8]
}
