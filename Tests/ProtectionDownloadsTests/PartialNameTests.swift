import Foundation
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// The parts of a download whose target has a name of any bytes.
@Suite("Names of parts")
struct PartialNameTests {
    private let bed: DownloadBed
    init() throws { bed = try DownloadBed() }

    private func target(_ bytes: [UInt8]) throws -> FilePath {
        bed.path("x").directory.appending(try #require(FilePath(bytes: bytes).lastComponent))
    }

    @Test(
        "Parts have the bytes of the name, are found, and are removed",
        arguments: [[0xFF, 0x61], Array(repeating: 0xFE, count: 255), Array("a\u{600}".utf8), Array("a\nb".utf8)])
    func anyBytes(_ bytes: [UInt8]) throws {
        let id = try DownloadID.random()
        let name = PartialName(target: try target(bytes), id: id)
        let other = PartialName(target: try target(Array(bytes.dropLast()) + [0x81]), id: id)
        for path in [name.path(1), name.path(20), other.path(3)] {
            let options: FileDescriptor.OpenOptions = [.create, .exclusiveCreate]
            try FileDescriptor.open(path, .writeOnly, options: options, permissions: .ownerReadWrite).close()
        }
        let last = try #require(name.path(1).lastComponent)
        #expect(last.bytes.count <= 255 && last.bytes.dropFirst().starts(with: bytes.prefix(180)))
        #expect(try name.numbers().sorted() == (bytes.count > 180 ? [1, 3, 20] : [1, 20]))
        try name.removeAll(but: [20])
        #expect(try name.numbers() == [20])
        PartialName.removeForgotten([name])
        #expect(try name.numbers() == [])
    }
}
