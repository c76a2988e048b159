import CMemoryFiles
import Foundation
import SystemPackage

@testable import DataProtection

/// A directory of plaintext to be upgraded.
struct UpgradeTree {
    let bed: FileTestBed

    init(state: ProtectionState = .unlocked) throws { bed = try FileTestBed(state: state) }

    /// Makes plaintext files that nobody has open, and the directories they are in.
    func plain(_ names: [String], _ bytes: [UInt8]) throws {
        for name in names {
            let path = bed.path(name)
            try FileManager.default.createDirectory(
                atPath: path.removingLastComponent().string, withIntermediateDirectories: true)
            try path.overwrite(bytes)
            try path.waitUntilNobodyWrites()
        }
    }

    /// Upgrades all of it.
    func upgraded(
        to protectionClass: ProtectionClass, options: UpgradeOptions = UpgradeOptions()
    ) async throws -> UpgradeSummary {
        let upgrade = try bed.keybag.upgrade(directory: bed.directory, to: protectionClass, options: options)
        for await _ in upgrade {}
        return upgrade.summary
    }

    /// What came of each file, by its name from the directory on.
    func results(of upgrade: Upgrade) async -> [String: UpgradeResult.Outcome] {
        var found: [String: UpgradeResult.Outcome] = [:]
        for await result in upgrade {
            found[String(result.path.string.dropFirst(bed.directory.string.count + 1))] = result.outcome
        }
        return found
    }

    /// Temporary names anywhere in it.
    func strays() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: bed.directory.string)
            .filter { $0.contains("protectfs-unfinished") }.sorted()
    }
}

extension FilePath {
    /// Another test may just have started a process, which has the descriptors of this one until it calls exec(2): on a busy
    /// machine for longer than an upgrade waits for a lease.
    func waitUntilNobodyWrites() throws {
        let file = try FileDescriptor.open(self, .readOnly, options: .closeOnExec)
        try file.closeAfter { while protectfs_has_no_writer(file.rawValue) == 0 { usleep(1_000) } }
    }
}
