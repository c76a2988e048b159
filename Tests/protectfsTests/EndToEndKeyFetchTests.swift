import SystemPackage
import Testing

/// Under strace: how often commands ask the kernel for class keys.
@Suite(
    "End to end: class keys are fetched once for each operation",
    .enabled(if: EndToEndUser.canMakeUsers && SystemCallTrace.isPossible, SystemCallTrace.whyNot))
struct EndToEndKeyFetchTests {
    private let user: EndToEndUser
    private let path: FilePath

    init() throws {
        user = try EndToEndUser.caller()
        path = user.home.appending("file")
        try user.unlock()
    }

    /// How often keys of the ring were read.
    private func fetches(_ arguments: [String], input: [UInt8] = []) throws -> Int {
        try SystemCallTrace(arguments, by: user, input: input).calls.count { $0.text.hasPrefix("keyctl(KEYCTL_READ,") }
    }

    @Test("A new file takes each key of the ring once", arguments: [3, 5000])
    func write(size: Int) throws {
        // A and C: the wrap, and the mark of origin. The command has no bytes yet then: it fetches A once more for the first MiB.
        let fetched = try fetches(
            ["write", "--class", "complete", path.string], input: [UInt8](repeating: 1, count: size))
        #expect(fetched == 3)
        try user.expectReads(path, [UInt8](repeating: 1, count: size))
    }

    @Test(
        "cat fetches the class key once to open the file and read its first MiB, and once for each further MiB",
        arguments: [3, 5000, 3 << 20])
    func cat(size: Int) throws {
        try user.write(path, "complete", [UInt8](repeating: 1, count: size))
        // Behind three whole MiB it looks whether there is more.
        let further = size / (1 << 20)
        #expect(try fetches(["cat", path.string]) == 1 + further)
        #expect(try fetches(["cat", "--range", "1-2", path.string]) == 2)
    }

    @Test("A class change takes each key of the ring once")
    func classChange() throws {
        try user.write(path, "complete", [1, 2, 3])
        #expect(try fetches(["class", "--allow-weaker", path.string, "first-unlock"]) == 2)
        #expect(try fetches(["class", path.string, "complete"]) == 2)
    }
}
