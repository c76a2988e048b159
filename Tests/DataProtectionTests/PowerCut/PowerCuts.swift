import Glibc
import PowerCutDisk
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Lets the worker work on a disk of its own, and looks at what failures of power would have left of it.
final class PowerCuts {
    let disk: PowerCutDisk
    let bed: FileTestBed
    let seed: UInt64
    private let name: String

    /// - Parameter name: for what is printed.
    init(_ name: String, mebibytes: Int = 48) throws {
        self.name = name
        seed = Randomised.seed
        disk = try PowerCutDisk(mebibytes: mebibytes)
        bed = try FileTestBed(in: FilePath(disk.mountPoint))
        // The record of who has files open stays open as long as a process lives: nothing could be unmounted.
        try bed.silenceClients()
    }

    /// A workload from its step `first` on, killed after some acknowledgements; then power fails at moments of that time.
    ///
    /// - Parameters:
    ///   - steps: acknowledgements to wait for.
    ///   - passcode: what unlocks when `last` was the last acknowledged step; of several the first that is right.
    ///   - check: what must hold after a cut, with the last step that was acknowledged before it (`first - 1`: none). The machine has
    ///     begun anew: the keybag was opened from the disk, and its keys from the passcode.
    func work(
        _ workload: String, from first: Int = 0, _ rest: [String], steps: Int,
        passcode: (_ last: Int) -> [String] = { _ in [TestKeybag.passcode] },
        check: (_ keybag: Keybag, _ last: Int, _ comment: Comment) throws -> Void
    ) throws {
        sync()
        var marks = [(last: first - 1, position: try disk.position())]
        let worker = try StormProcess(bed, workload, seed: seed, first: first, rest)
        while marks.count <= steps, let number = try worker.acknowledgement() {
            marks.append((number, try disk.position()))
        }
        let end = try worker.kill(after: marks.last!.last)!
        if end > marks.last!.last { marks.append((end, try disk.position())) }
        try bed.keybag.ring.evict(everything: true)
        try disk.unplug()
        let cuts = try disk.cuts(of: name, from: marks[0].position)
        for cut in cuts {
            let last = marks.last { $0.position <= cut.position }!.last
            try disk.after(cut) {
                let keybag = try Keybag(at: bed.keybag.directory)
                let comment: Comment = "\(name), \(cut), \(last) was acknowledged"
                let isOpen = passcode(last).contains { (try? keybag.unlock(passcode: secret($0))) != nil }
                try #require(isOpen, comment)
                try check(keybag, last, comment)
                try keybag.ring.evict(everything: true)
            }
        }
        print(
            "power cuts, \(name): \(cuts.count) cuts, \(marks.count - 1) acknowledged steps before them")
    }
}

extension ProtectedFile {
    /// All bytes of a file.
    static func contents(of path: FilePath, keybag: Keybag) throws -> [UInt8] {
        let file = try open(path, keybag: keybag)
        return try file.bytes(at: 0, count: Int(try file.size()))
    }
}
