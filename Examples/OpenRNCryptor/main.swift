import Foundation
import RNCryptorFormat

// Prints the text of an RNCryptor file, version 2 or 3. The password, without a newline, is read from descriptor 3.
//
//     OpenRNCryptor FILE 3<password

/// Prints nothing before all of it is verified, and needs no more memory for a large file.
func printText(of path: String, with secret: borrowing RNCryptorSecret) throws {
    let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
    let start = try file.read(upToCount: RNCryptorHeader.maximumLength) ?? Data()
    let header = try start.withUnsafeBytes { try RNCryptorHeader(readFrom: $0) }

    var verifier = try RNCryptorVerifier(header, with: secret)
    try file.seek(toOffset: UInt64(header.length))
    while let piece = try file.read(upToCount: 1 << 20), !piece.isEmpty {
        try piece.withUnsafeBytes { try verifier.update($0) }
    }
    var opener = try verifier.finish()  // throws, unless every byte is as it was sealed

    while let range = opener.next {
        try file.seek(toOffset: UInt64(range.lowerBound))
        var piece = try file.read(upToCount: range.count) ?? Data()
        let count = try piece.withUnsafeMutableBytes { try opener.open(UnsafeRawBufferPointer($0), into: $0) }
        try FileHandle.standardOutput.write(contentsOf: piece.prefix(count))
    }
}

guard CommandLine.arguments.count == 2 else { exit(64) }
do {
    let password = SecretBytes(capacity: 1024) { buffer in max(0, read(3, buffer.baseAddress!, buffer.count)) }
    try printText(of: CommandLine.arguments[1], with: RNCryptorSecret(password: password))
} catch {
    try FileHandle.standardError.write(contentsOf: Data("OpenRNCryptor: \(error)\n".utf8))
    exit(65)
}
