import Foundation
import Glibc
import SystemPackage
import Testing

@testable import DataProtection

/// Trees that are deeper than PATH_MAX bytes of a path, and than the directories that a pass keeps open.
@Suite("Deep trees")
struct DeepTreeTests {
    /// So many directories of one name, one in the other: more than a pass keeps open; and 5,000 bytes of a path.
    struct Shape {
        let depth: Int
        let name: FilePath.Component
    }
    private static let shapes = [
        Shape(depth: 300, name: "d"), Shape(depth: 20, name: FilePath.Component(String(repeating: "n", count: 250))!),
    ]
    private let bed: FileTestBed
    init() throws { bed = try FileTestBed() }

    /// `top/d/d…`, with a protected and a plaintext file, and a link, at the bottom.
    private func makeTree(_ top: String, _ shape: Shape) throws {
        let source = try bed.make("source", .complete, [1, 2, 3]).contents()
        var way = Descent(try LowerDirectory(bed.directory))
        try way.make(try #require(FilePath.Component(top)))
        for _ in 0..<shape.depth { try way.make(shape.name) }
        defer { withExtendedLifetime(way) {} }
        let bottom = way.directory.descriptorPath
        try bottom.appending("f").overwrite(source)
        try bottom.appending("plain").overwrite([4])
        try bottom.appending("plain").waitUntilNobodyWrites()
        try bottom.appending("l").makeSymbolicLink(to: "f")
        try bed.path("source").remove()
    }

    /// The directory at the bottom, from the one at the top.
    private func bottom(of top: LowerDirectory, _ shape: Shape) throws -> LowerDirectory {
        var way = Descent(top)
        for _ in 0..<shape.depth { try way.enter(shape.name, way.directory.directory(shape.name)) }
        return way.directory
    }

    private func remove(_ names: FilePath.Component...) throws {
        let directory = try LowerDirectory(bed.directory)
        for name in names { try directory.removeTree(name) }
    }

    @Test("A copy has everything, and is removed whole", arguments: shapes)
    func copy(_ shape: Shape) throws {
        try makeTree("a", shape)
        try FileManager.default.copyItem(
            atPath: bed.path("a").string, toPath: bed.path("b").string, protectedBy: bed.keybag)
        let directory = try bottom(of: LowerDirectory(bed.path("b")), shape)
        defer { withExtendedLifetime(directory) {} }
        let copy = directory.descriptorPath
        #expect(try copy.names() == ["f", "l", "plain"])
        #expect(try bed.read(copy.appending("f")) == [1, 2, 3])
        #expect(try bed.read(copy.appending("plain")) == [4])
        try remove("a", "b")
        #expect(try bed.names() == [])
    }

    @Test("An upgrade protects what is at the bottom", arguments: shapes)
    func upgrade(_ shape: Shape) async throws {
        try makeTree("a", shape)
        let upgrade = try bed.keybag.upgrade(directory: bed.directory, to: .complete)
        for await _ in upgrade {}
        #expect(upgrade.summary.failures == [])
        #expect(upgrade.summary.converted == 1 && upgrade.summary.unchanged == 1)
        let directory = try bottom(of: LowerDirectory(bed.path("a")), shape)
        defer { withExtendedLifetime(directory) {} }
        #expect(try bed.read(directory.descriptorPath.appending("plain")) == [4])
        try remove("a")
    }

    /// A directory that was moved out of the tree while a pass was below it does not lead the pass elsewhere.
    @Test("The way up ends where a directory was moved away")
    func moved() throws {
        let directory = try LowerDirectory(bed.directory)
        try OwnDirectory.make(bed.path("elsewhere"))
        var way = Descent(directory)
        for _ in 0..<100 { try way.make("d") }
        // The tenth goes with all below.
        var upper = Descent(directory)
        for _ in 0..<9 { try upper.make("d") }
        defer { withExtendedLifetime(upper) {} }
        let moved = upper.directory.descriptorPath.appending("d")
        #expect(rename(moved.string, bed.path("elsewhere/d").string) == 0)
        for _ in 0..<90 { try way.leave() }
        #expect(
            throws: DataProtectionError.system(way.directory.path.directory, operation: "openat", .staleNFSFileHandle)
        ) {
            try way.leave()
        }
    }
}
