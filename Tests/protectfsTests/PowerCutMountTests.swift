import Foundation
import PowerCutDisk
import ProtectionFormat
import TestEffort
import Testing

/// The power fails while a program writes through a mount: what fsync, msync, close and rename have acknowledged is there, and no file has
/// become plaintext.
///
/// Everything is on the disk that records: the stored files, and the keybag with its queue, where late pages wait.
@Suite("mount --read-write: power cuts", .serialized, .enabled(if: whyNoPowerCut == nil, "\(whyNoPowerCut ?? "")"))
struct PowerCutMountTests {
    private let bed: MountBed
    private let disk: PowerCutDisk
    private var sandbox: CommandSandbox { bed.sandbox }

    init() throws {
        disk = try PowerCutDisk(mebibytes: 64)
        bed = try MountBed(in: disk.mountPoint)
        try bed.mount("--read-write")
    }

    @Test("A file that is written to, cut, appended to and mapped has what was acknowledged")
    func writes() throws {
        var generator = Effort.generator("power cuts, mount: writes")
        let mapped = MountBed.contents.count
        var states = [Array(MountBed.contents)]
        try cuts("mount: writes", file: "complete", steps: 40) { step, writer in
            var bytes = states[step]
            let (byte, count) = (UInt8(step + 1), Int.random(in: 1...9000, using: &generator))
            let offset = Int.random(in: 0...mapped - count, using: &generator)
            switch Int.random(in: 0..<8, using: &generator) {
            case 0:
                let size = Int.random(in: mapped...mapped + 40_000, using: &generator)
                bytes = Array(bytes.prefix(size)) + Array(repeating: 0, count: max(size - bytes.count, 0))
                try writer.call("cut", size)
            case 1...2:
                bytes += Array(repeating: byte, count: count)
                try writer.call("append", count, Int(byte))
            case 3...4:
                bytes.replaceSubrange(offset..<offset + count, with: Array(repeating: byte, count: count))
                try writer.call("store", offset, count, Int(byte))
                try writer.call("flush")
            default:
                bytes.replaceSubrange(offset..<offset + count, with: Array(repeating: byte, count: count))
                try writer.call("write", offset, count, Int(byte))
            }
            states.append(bytes)
        } check: { allowed, directory, comment in
            let found = try contents(of: "complete", in: directory)
            expect(found, of: states, after: allowed, comment)
        }
    }

    @Test("New files and replaced ones are whole, in their class, and under their names when the directory was flushed")
    func names() throws {
        let sizes = [0, 1, 3584, 3585, 20_000, 300_000]
        func text(_ step: Int) -> [UInt8] { Array(repeating: UInt8(step + 1), count: sizes[step / 3 % sizes.count]) }
        // Each third step makes a file, the next one puts one in the place of another, and the next flushes the directory.
        func replaced(by last: Int) -> [UInt8] {
            let step = last - (last + 2) % 3
            return step < 0 ? Array(MountBed.contents) : text(step)
        }
        try cuts("mount: names", file: "complete", steps: 30) { step, writer in
            switch step % 3 {
            case 0: try writer.call("new", step, text(step).count, step + 1)
            case 1: try writer.call("replace", text(step).count, step + 1, step / 3 % 2)
            default: try writer.call("flushNames")
            }
        } check: { allowed, directory, comment in
            let last = allowed.lowerBound
            let names = Set(try FileManager.default.contentsOfDirectory(atPath: sandbox.path("d")))
            for step in stride(from: 0, through: last, by: 3) {
                #expect(try contents(of: "new\(step)", in: directory) == text(step), "\(comment), new\(step)")
            }
            let found = try contents(of: "complete", in: directory)
            let unfinished = names.contains("unfinished") ? try contents(of: "unfinished", in: directory) : nil
            switch (last + 3) % 3 {
            case 0 where allowed.count == 2:
                #expect(found == replaced(by: last) || found == text(last + 1), comment)
                #expect(unfinished == nil || text(last + 1).starts(with: unfinished!), comment)
            case 1:
                // Closed or renamed: the bytes last, under one of the names.
                #expect(found == text(last) || found == replaced(by: last - 1) && unfinished == text(last), comment)
            default:
                #expect(found == replaced(by: last) && unfinished == nil, comment)
            }
            #expect(try sandbox.run("class", "d/complete").text.contains("complete"), comment)
            if names.contains("new\(last + 1)") {
                #expect(text(last + 1).starts(with: try contents(of: "new\(last + 1)", in: directory)), comment)
            }
        }
    }

    @Test("Pages that came after a lock are there, merged or waiting for the unlock")
    func latePages() throws {
        var generator = Effort.generator("power cuts, mount: late pages")
        let size = MountBed.contents.count
        var states = [Array(MountBed.contents)]
        try cuts("mount: late pages", file: "complete", steps: 8) { step, writer in
            var bytes = states[step]
            if step.isMultiple(of: 2) {
                try writer.call("halt")
                for _ in 0..<3 {
                    let count = Int.random(in: 1...9000, using: &generator)
                    let offset = Int.random(in: 0...size - count, using: &generator)
                    let stored = Array(repeating: UInt8(step + 1), count: count)
                    bytes.replaceSubrange(offset..<offset + count, with: stored)
                    try writer.call("store", offset, count, step + 1)
                }
                #expect(try sandbox.run("lock").status == 0)
                try writer.call("proceed")
                try writer.call("flush")
            } else {
                try sandbox.unlock()
            }
            states.append(bytes)
        } check: { allowed, directory, comment in
            let found = try contents(of: "complete", in: directory)
            expect(found, of: states, after: allowed, comment)
        }
    }

    // MARK: cuts

    /// Lets a program take its steps; then the power fails at moments of that time, and machine, keybag and, each other time, mount begin anew.
    ///
    /// - Parameters:
    ///   - name: for what is printed.
    ///   - file: the one that the program has open.
    ///   - take: returns when the step is acknowledged.
    ///   - check: what must hold after a cut: with the steps that may be the last one, and the directory to look in.
    private func cuts(
        _ name: String, file: String, steps: Int, take: (_ step: Int, MountWriter) throws -> Void,
        check: (_ allowed: ClosedRange<Int>, _ directory: String, Comment) throws -> Void
    ) throws {
        let writer = try MountWriter(bed, file: "point/\(file)")
        try disk.flush()
        var marks = [(step: -1, position: try disk.position())]
        for step in 0..<steps {
            try take(step, writer)
            marks.append((step, try disk.position()))
        }
        writer.end()
        let ended = try bed.script("kill(server()); run('lock')", isInside: false)
        try #require(ended.status == 0, "\(ended.errors)")
        try #require(try sandbox.shell("fusermount3 -u -z point").status == 0)
        try disk.unplug()
        var isMounted = false
        try disk.afterCuts(of: name, marks: marks) { allowed, text in
            isMounted.toggle()
            let comment = Comment(rawValue: text + (isMounted ? ", mounted" : ""))
            try sandbox.unlock()
            // The unlock has begun with the queue in the background.
            let worked = try bed.script(
                "assert waited(lambda: not verb('queue', 'list').stdout), verb('queue', 'run')", isInside: false)
            try #require(worked.status == 0, "\(comment): \(worked.errors)")
            if isMounted { try bed.mount("--read-write") }
            let checked = Result { try check(allowed, isMounted ? "point" : "d", comment) }
            let ended = try bed.script(
                isMounted
                    ? "process = server(); keeper = guardian(process); run('unmount', 'point'); run('lock')\n"
                        + "assert waited(lambda: gone(process) and gone(keeper))"
                    : "run('lock')", isInside: false)
            try #require(ended.status == 0, "\(comment): \(ended.errors)")
            for name in try FileManager.default.contentsOfDirectory(atPath: sandbox.path("d")) {
                // What lay behind the end of a file when the power failed is ciphertext, too.
                if name == "plain" || name.contains(".appended-") { continue }
                guard let stored = FileManager.default.contents(atPath: sandbox.path("d/" + name)) else { continue }
                #expect(stored.isEmpty || stored.starts(with: Prefix.magic), "\(comment): \(name) is plaintext")
            }
            try checked.get()
        }
    }

    private func contents(of name: String, in directory: String) throws -> [UInt8] {
        if directory == "point" {
            return Array(try Data(contentsOf: URL(fileURLWithPath: sandbox.path("point/" + name))))
        }
        let done = try sandbox.run("cat", "d/" + name)
        try #require(done.status == 0, "\(done.errors)")
        return Array(done.output)
    }

    /// Each byte is what it was before or after the step that was under way, where those differ.
    ///
    /// - Parameter states: before the first step, after it, after the second one …
    private func expect(
        _ found: [UInt8], of states: [[UInt8]], after allowed: ClosedRange<Int>, _ comment: Comment
    ) {
        let (old, new) = (states[allowed.lowerBound + 1], states[min(allowed.upperBound + 1, states.count - 1)])
        let sizes = min(old.count, new.count)...max(old.count, new.count)
        #expect(sizes.contains(found.count), "\(comment): \(found.count) bytes")
        func value(_ bytes: [UInt8], _ index: Int) -> String { index < bytes.count ? "\(bytes[index])" : "none" }
        let wrong = found.indices.filter { index in
            let isOld = index < old.count && found[index] == old[index]
            return !isOld && !(index < new.count && found[index] == new[index])
        }
        if let first = wrong.first {
            let values = "\(found[first]) and not \(value(old, first)) or \(value(new, first))"
            Issue.record("\(comment): byte \(first) is \(values), with \(wrong.count) others up to \(wrong.last!)")
        }
    }
}

/// Why there can be no such disk or mapping here; nil if there can.
private let whyNoPowerCut = PowerCutDisk.whyNot ?? whyNoSharedMapping
