import Foundation
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Somebody swaps directories, files and links in the tree all the time: nothing outside of it is read or written.
@Suite struct UpgradeAttackerTests {
    private static let secret = Array("what lies outside".utf8)
    private static let names = (0..<2).flatMap { directory in (0..<2).map { "d\(directory)/f\($0)" } }

    @Test func pathsAreSwapped() async throws {
        let rounds = Randomised.count("PROTECTFS_SWAPS", short: 200)
        let tree = try UpgradeTree()
        let outside = tree.bed.bag.scratchPath.appending("outside")
        mkdir(outside.string, 0o700)
        for number in 0..<2 { try outside.appending("f\(number)").overwrite(Self.secret) }
        let before = try Self.looks(of: outside)
        let attacker = Attacker(tree.bed.directory, outside, Randomised.generator("swapped paths"))
        var outcomes: [String: Int] = [:]
        for round in 0..<rounds {
            try attacker.pause {
                for name in Self.names { try tree.plain([name], Array("inside \(round) \(name)".utf8)) }
            }
            let summary = try await tree.upgraded(to: .complete)
            outcomes["converted", default: 0] += summary.converted
            outcomes["failed", default: 0] += summary.failures.count
            try attacker.pause {
                try #require(try Self.looks(of: outside) == before, "round \(round)")
                for name in Self.names {
                    let path = tree.bed.path(name)
                    let isProtected = try LowerFile(path, flags: O_RDONLY).isOneOfOurs()
                    let found = isProtected ? try tree.bed.read(path) : try path.contents()
                    try #require(found == Array("inside \(round) \(name)".utf8), "round \(round), \(name)")
                }
            }
        }
        let swaps = attacker.end()
        #expect(outcomes["converted", default: 0] > 0)
        #expect(try await tree.upgraded(to: .complete).failures == [])
        #expect(try tree.strays() == [])
        print("attacker: \(rounds) upgrades, \(swaps) swaps, \(outcomes), no escape")
    }

    /// Names, contents, inode numbers, change times, attributes.
    private static func looks(of directory: FilePath) throws -> [String] {
        try ([directory] + (try directory.names()).map { directory.appending($0) }).map { path in
            var status = stat()
            guard lstat(path.string, &status) == 0 else { throw Errno(rawValue: errno) }
            let contents = status.st_mode & S_IFMT == S_IFREG ? try path.contents() : []
            let attribute = ExtendedAttributes.get(DirectoryDefault.attribute, of: path) ?? []
            let times = "\(status.st_mtim.tv_sec).\(status.st_mtim.tv_nsec)"
            return "\(path) \(status.st_ino) \(status.st_size) \(times) \(contents) \(attribute)"
        }
    }
}

/// Puts something else in the place of a directory or file for a moment, over and over.
private final class Attacker: @unchecked Sendable {  // what changes is guarded by the lock
    private let tree, outside: FilePath
    private let lock = NSLock()
    private let over = DispatchSemaphore(value: 0)
    private var generator: SeededGenerator
    private var swaps = 0
    private var isOver = false

    init(_ tree: FilePath, _ outside: FilePath, _ generator: SeededGenerator) {
        (self.tree, self.outside, self.generator) = (tree, outside, generator)
        Thread.detachNewThread { [self] in
            while lock.withLock({ swap() }) { usleep(50) }
            over.signal()
        }
    }

    /// Nothing is swapped meanwhile.
    func pause(_ body: () throws -> Void) rethrows { try lock.withLock { try body() } }

    /// Ends it; how many swaps there were.
    func end() -> Int {
        lock.withLock { isOver = true }
        over.wait()
        return swaps
    }

    /// One swap, undone again. False at the end.
    private func swap() -> Bool {
        if isOver { return false }
        swaps += 1
        let directory = tree.appending("d\(Int.random(in: 0..<2, using: &generator))")
        let file = directory.appending("f\(Int.random(in: 0..<2, using: &generator))")
        let aside = tree.removingLastComponent().appending("aside")
        let kind = Int.random(in: 0..<4, using: &generator)
        let target = kind == 0 ? directory : file
        guard rename(target.string, aside.string) == 0 else { return true }
        switch kind {
        case 0: symlink(outside.string, target.string)
        case 1: symlink(outside.appending(file.lastComponent!).string, target.string)
        case 2: link(outside.appending(file.lastComponent!).string, target.string)
        default: symlink("../../outside/f0", target.string)
        }
        usleep(.random(in: 0...300, using: &generator))
        // Takes the place of what was put there, unless somebody has: then that is what is looked at.
        if kind == 0 { unlink(target.string) }
        rename(aside.string, target.string)
        return true
    }
}
