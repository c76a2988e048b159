import Foundation
import TestCertificates

/// A file of roots of a test's own, in a directory that goes with this object.
final class RootDirectory {
    let path: String
    var file: String { path + "/roots.pem" }

    init() throws {
        path = NSTemporaryDirectory() + "protectfs-roots-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Replaces the file by one with these certificates.
    func write(_ names: String...) throws {
        let pem = names.map { TestCertificates.pem("CERTIFICATE", TestCertificates.certificate($0)) }.joined()
        try pem.write(toFile: file, atomically: true, encoding: .utf8)
    }
}
