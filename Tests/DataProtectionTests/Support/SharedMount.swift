import Foundation
import Glibc
import SystemPackage

@testable import DataProtection

/// The files of a bed as another machine would have them: through bindfs(1), with a page cache of its own that nobody tells of changes.
final class SharedMount {
    let bed: FileTestBed
    /// Where the other machine has the bed's directory.
    let view: FilePath
    private let daemon = Process()

    private static let program = "/usr/bin/bindfs"

    /// Why there can be none here; nil: there can.
    static let whyNot: String? =
        geteuid() != 0
        ? "mounting takes root"
        : access(program, X_OK) != 0
            ? "bindfs is not installed" : access("/dev/fuse", R_OK | W_OK) != 0 ? "there is no /dev/fuse" : nil

    struct NotMounted: Error {}

    init(_ bed: FileTestBed) throws {
        self.bed = bed
        view = bed.bag.scratchPath.appending("view")
        try FileManager.default.createDirectory(atPath: view.string, withIntermediateDirectories: false)
        daemon.executableURL = URL(fileURLWithPath: Self.program)
        // What the kernel knows of a file it takes for true for an hour: it does not find out by itself that a file has changed.
        daemon.arguments = ["-f", "-o", "attr_timeout=3600,entry_timeout=3600", bed.directory.string, view.string]
        try daemon.run()
        for _ in 0..<1000 where !SharedFileSystem.holds(view) { usleep(10_000) }
        guard SharedFileSystem.holds(view) else { throw NotMounted() }
    }

    deinit {
        _ = view.withPlatformString { umount2($0, Int32(MNT_DETACH)) }
        daemon.terminate()
        daemon.waitUntilExit()
    }
}
