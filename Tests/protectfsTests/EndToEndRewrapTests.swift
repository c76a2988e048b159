import SystemPackage
import Testing

/// Under strace: keys are wrapped anew, and no data are touched.
@Suite(
    "End to end: writes of a change of keys",
    .enabled(if: EndToEndUser.canMakeUsers && SystemCallTrace.isPossible, SystemCallTrace.whyNot))
struct EndToEndRewrapTests {
    private let user: EndToEndUser
    private let directory: FilePath
    private let names = (0..<40).map { "file-\($0)" }

    init() throws {
        user = try EndToEndUser.caller()
        directory = user.home.appending("files")
        try directory.makeDirectory()
        try user.unlock()
        for (index, name) in names.enumerated() {
            try user.write(
                directory.appending(name), EndToEndUser.classes[index % 4],
                [UInt8](repeating: UInt8(index), count: index * 10_000))
        }
    }

    /// The calls that write to files below `directory`, or could.
    private func writes(_ trace: SystemCallTrace) -> [SystemCallTrace.Call] {
        trace.calls.filter { call in
            [
                "write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "fallocate", "copy_file_range",
                "mmap",
                "ioctl", "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat",
            ].contains(String(call.name))
                && (call.descriptorPaths.contains { $0.hasPrefix(directory.string) }
                    || call.strings.contains { $0.starts(with: Array(directory.string.utf8)) })
        }
    }

    @Test("class and rotate write whole heads at their two places, and nothing else", arguments: ["class", "rotate"])
    func headsOnly(verb: String) throws {
        let paths = names.map { directory.appending($0).string }
        let trace =
            verb == "class"
            ? try SystemCallTrace(["class", "--allow-weaker"] + paths + ["first-unlock"], by: user)
            : try SystemCallTrace(
                ["rotate", "--root", directory.string, "--passcode-fd", "0"], by: user,
                input: Array(EndToEndUser.passcode.utf8))
        let writes = writes(trace)
        let changed = verb == "class" ? names.count * 3 / 4 : names.count
        #expect(writes.count == 2 * changed)
        for call in writes {
            let isHead = call.text.contains(/, 4096, (0|4096)(\)| <unfinished)/)
            #expect(call.name == "pwrite64" && isHead, "\(call.name) \(call.text.suffix(60))")
        }
        for (index, name) in names.enumerated() {
            try user.expectReads(
                directory.appending(name), [UInt8](repeating: UInt8(index), count: index * 10_000))
        }
    }

    @Test("A passcode change opens no protected file, however many there are")
    func passcode() throws {
        let trace = try SystemCallTrace(
            ["passcode", "--passcode-fd", "0", "--new-passcode-fd", "0"], by: user,
            input: Array(EndToEndUser.passcode.utf8) + [10] + Array("new".utf8))
        let touched = trace.calls.filter { call in
            call.strings.contains { $0.starts(with: Array(directory.string.utf8)) }
                || call.descriptorPaths.contains { $0.hasPrefix(directory.string) }
        }
        #expect(touched.map(\.name) == [])
        let opened = trace.calls.compactMap(\.openedPath).filter { $0.hasPrefix(user.home.string) }
        #expect(!opened.isEmpty)
    }
}
