import Glibc
import PowerCutDisk
import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// Lets the worker work on a disk of its own, step by step, and looks at what failures of power would have left of it.
final class PowerCuts {
    let disk: PowerCutDisk
    let bed: FileTestBed
    let seed = Effort.seed
    private let name: String

    /// - Parameter name: for what is printed.
    init(_ name: String, mebibytes: Int = 48) throws {
        self.name = name
        disk = try PowerCutDisk(mebibytes: mebibytes)
        bed = try FileTestBed(in: FilePath(disk.mountPoint))
        // The record of who has files open stays open as long as a process lives: nothing could be unmounted.
        try bed.silenceClients()
    }

    /// After a cut.
    struct Found {
        /// The machine has begun anew: the keybag was opened from the disk, and its keys from the passcode.
        let keybag: Keybag
        /// What may be there: the last step that was acknowledged before; and the next one, unless that had not begun.
        let allowed: ClosedRange<Int>
        let comment: Comment
    }

    /// A workload from its step `first` on, killed after some acknowledgements; then power fails at moments of that time.
    ///
    /// - Parameters:
    ///   - none: what stands for the state before the first acknowledgement; nil: `first - 1`.
    ///   - steps: acknowledgements to wait for.
    ///   - passcode: what unlocks after a step; nil: the one of tests.
    ///   - observe: called with each step when it was acknowledged and the next one has not begun.
    ///   - check: what must hold after a cut.
    func work(
        _ workload: String, from first: Int = 0, none: Int? = nil, _ rest: [String], steps: Int,
        passcode: (_ step: Int) -> String = { _ in TestKeybag.passcode },
        observe: (_ step: Int) throws -> Void = { _ in },
        check: (Found) throws -> Void
    ) throws {
        let marks = try acknowledged(workload, from: first, none: none, rest, steps: steps, observe: observe)
        try disk.afterCuts(of: name, marks: marks) { allowed, text in
            try opened(allowed, Comment(rawValue: text), passcode, check)
        }
    }

    /// Lets what was done after a cut be acknowledged.
    typealias Acknowledge = (_ step: Int) throws -> Void

    /// The same, and after some of the cuts power fails again, while `recover` works with what the first one has left.
    ///
    /// - Parameter recover: gives what must hold after the second cut, where the state before its first acknowledgement is -1.
    func workTwice(
        _ workload: String, _ rest: [String], steps: Int,
        recover: (Found, Acknowledge) throws -> (Found) throws -> Void
    ) throws {
        let marks = try acknowledged(workload, rest, steps: steps)
        // As many first ones as second ones after each.
        let count = Int(Double(PowerCutDisk.share(atLeast: 4)).squareRoot().rounded(.up))
        var (done, steps) = (0, 0)
        for cut in try disk.cuts(of: name, marks: marks.map(\.position), count: count) {
            let (allowed, text) = PowerCutDisk.allowed(after: cut, of: name, marks)
            let disk = try disk.again(after: cut)
            var marks = [(step: -1, position: try disk.position())]
            var check: ((Found) throws -> Void)?
            try opened(allowed, Comment(rawValue: text)) { found in
                check = try recover(found) { marks.append(($0, try disk.position())) }
            }
            try disk.unplug()
            for cut in try disk.cuts(of: text, marks: marks.map(\.position), count: count, seed: cut.seed) {
                let (allowed, text) = PowerCutDisk.allowed(after: cut, of: text + "; then", marks)
                try disk.after(cut) { try opened(allowed, Comment(rawValue: text)) { try check?($0) } }
                done += 1
            }
            steps += marks.count - 1
        }
        print("power cuts, \(name): \(done) cuts, \(steps) acknowledged steps before them")
    }

    /// A worker's steps, until it is killed, and how much had reached the disk by then. The disk is unplugged.
    private func acknowledged(
        _ workload: String, from first: Int = 0, none: Int? = nil, _ rest: [String], steps: Int,
        observe: (_ step: Int) throws -> Void = { _ in }
    ) throws -> [PowerCutDisk.Mark] {
        try disk.flush()
        var marks = [(step: none ?? first - 1, position: try disk.position())]
        try observe(marks[0].step)
        let worker = try StormProcess(bed, workload, seed: seed, first: first, rest, inStep: true)
        while let number = try worker.acknowledgement() {
            marks.append((number, try disk.position()))
            try observe(number)
            if marks.count > steps { break }
            try worker.next()
        }
        _ = try worker.kill(after: nil)
        try bed.keybag.ring.evict(everything: true)
        try disk.unplug()
        return marks
    }

    /// Opens the keybag that is on the disk, for `body`.
    private func opened(
        _ allowed: ClosedRange<Int>, _ comment: Comment,
        _ passcode: (_ step: Int) -> String = { _ in TestKeybag.passcode }, _ body: (Found) throws -> Void
    ) throws {
        let keybag = try Keybag(at: bed.keybag.directory)
        let isOpen = allowed.contains { (try? keybag.unlock(passcode: secret(passcode($0)))) != nil }
        try #require(isOpen, comment)
        try body(Found(keybag: keybag, allowed: allowed, comment: comment))
        try keybag.ring.evict(everything: true)
    }
}

extension ProtectedFile {
    /// All bytes of a file.
    static func contents(of path: FilePath, keybag: Keybag) throws -> [UInt8] {
        let file = try open(path, keybag: keybag)
        return try file.bytes(at: 0, count: Int(try file.size()))
    }
}
