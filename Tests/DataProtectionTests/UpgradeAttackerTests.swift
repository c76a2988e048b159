import Foundation
import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// Somebody swaps directories, files and links in the tree all the time: nothing outside of it is read or written, and
/// nothing that they save in it is lost.
@Suite struct UpgradeAttackerTests {
    private static let secret = Array("what lies outside".utf8)
    private static let names = (0..<2).flatMap { directory in (0..<2).map { "d\(directory)/f\($0)" } }

    @Test func pathsAreSwapped() async throws {
        let rounds = Effort.count(200, 1_000)
        let tree = try UpgradeTree()
        let outside = tree.bed.bag.scratchPath.appending("outside")
        mkdir(outside.string, 0o700)
        for number in 0..<2 { try outside.appending("f\(number)").overwrite(Self.secret) }
        let before = try Self.looks(of: outside)
        let attacker = Attacker(tree.bed.directory, outside, Effort.generator("swapped paths"))
        var outcomes: [String: Int] = [:]
        for round in 0..<rounds {
            try attacker.pause {
                for name in Self.names { try tree.plain([name], attacker.saved[name] ?? []) }
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
                    try #require(found == attacker.saved[name], "round \(round), \(name)")
                }
            }
        }
        let swaps = attacker.end()
        #expect(outcomes["converted", default: 0] > 0)
        #expect(swaps.allSatisfy { $0 > 0 })
        let between = try tree.strays()
        let last = try await tree.upgraded(to: .complete)
        #expect(last.failures == [])
        #expect(last.converted + last.unchanged == Self.names.count)
        #expect(try tree.strays() == [], "left before: \(between)")
        print("attacker: \(rounds) upgrades, swaps \(swaps), \(outcomes), no escape")
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

/// Puts something else in the place of a directory or file for a moment, over and over, and saves files meanwhile.
private final class Attacker: @unchecked Sendable {  // what changes is guarded by the lock
    private enum Swap: Int, CaseIterable {
        case directoryForLink, fileForLink, fileForHardLink, fileForRelativeLink, fileForFIFO, directories
        /// As an editor does: a new file, renamed to the old one's name.
        case save
    }

    private let tree, outside: FilePath
    private let lock = NSLock()
    private let over = DispatchSemaphore(value: 0)
    private var generator: SeededGenerator
    private var swaps = [Int](repeating: 0, count: Swap.allCases.count)
    private var isOver = false
    private var number = 0
    /// What was last saved under each name, to be read in ``pause(_:)``.
    private(set) var saved: [String: [UInt8]] = [:]

    init(_ tree: FilePath, _ outside: FilePath, _ generator: SeededGenerator) {
        (self.tree, self.outside, self.generator) = (tree, outside, generator)
        for directory in 0..<2 {
            for file in 0..<2 { saved["d\(directory)/f\(file)"] = Array("at first".utf8) }
        }
        Thread.detachNewThread { [self] in
            while lock.withLock({ swap() }) { usleep(50) }
            over.signal()
        }
    }

    /// Nothing is swapped meanwhile.
    func pause(_ body: () throws -> Void) rethrows { try lock.withLock { try body() } }

    /// Ends it; how many swaps of each kind there were.
    func end() -> [Int] {
        lock.withLock { isOver = true }
        over.wait()
        return swaps
    }

    /// One swap, undone again unless it is for good. False at the end.
    private func swap() -> Bool {
        if isOver { return false }
        let kind = Swap.allCases.randomElement(using: &generator)!
        let name = "d\(Int.random(in: 0..<2, using: &generator))/f\(Int.random(in: 0..<2, using: &generator))"
        let file = tree.appending(name)
        let aside = tree.removingLastComponent().appending("aside")
        switch kind {
        case .directories: exchangeDirectories()
        case .save: save(name, at: file, by: aside)
        default:
            let target = kind == .directoryForLink ? file.removingLastComponent() : file
            guard rename(target.string, aside.string) == 0 else { return true }
            switch kind {
            case .directoryForLink: symlink(outside.string, target.string)
            case .fileForLink: symlink(outside.appending(file.lastComponent!).string, target.string)
            case .fileForHardLink: link(outside.appending(file.lastComponent!).string, target.string)
            case .fileForFIFO: mkfifo(target.string, 0o600)
            default: symlink("../../outside/f0", target.string)
            }
            pause()
            // Takes the place of what was put there, unless somebody has: then that is what is looked at.
            if kind == .directoryForLink { unlink(target.string) }
            rename(aside.string, target.string)
        }
        swaps[kind.rawValue] += 1
        return true
    }

    private func pause() { usleep(.random(in: 0...300, using: &generator)) }

    /// There and back again.
    private func exchangeDirectories() {
        for _ in 0..<2 {
            _ = try? LowerDirectory(tree).exchange("d0", "d1")
            pause()
        }
    }

    private func save(_ name: String, at file: FilePath, by other: FilePath) {
        number += 1
        let bytes = Array("inside \(number) \(name)".utf8)
        guard (try? other.overwrite(bytes)) != nil, rename(other.string, file.string) == 0 else { return }
        saved[name] = bytes
    }
}
