import DataProtectionTesting
import Foundation
import TestEffort
import Testing

@Suite(
    "Bytes that a lock leaves in the kernel, as the server of a mount can ask",
    .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct RetrievalTests {
    @Test("When lock returns, the kernel hands back no byte of any complete file; pages of other files stay")
    func nothingIsLeft() throws {
        // Each mapped file is open in the server.
        var limit = rlimit()
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        try #require(getrlimit(files, &limit) == 0)
        limit.rlim_cur = limit.rlim_max
        try #require(setrlimit(files, &limit) == 0)
        let count = min(Effort.count(200, 5000), Int(clamping: limit.rlim_max) / 2)

        let temporary = try TemporaryKeybag()
        func write(_ name: String, _ options: Data.WritingOptions) throws {
            let place = URL(fileURLWithPath: temporary.directory.appending(name).string)
            try Data(repeating: 1, count: 5000).write(to: place, options: options, protectedBy: temporary.keybag)
        }
        let names = (0..<count).map { "complete-\($0)" }
        for name in names { try write(name, .completeFileProtection) }
        try write("none", .noFileProtection)

        let mount = try ServedMount(temporary.directory, keybag: temporary.keybag)
        let mappings = try names.map { try Mapping("\(mount.point)/\($0)") }
        let other = try Mapping("\(mount.point)/none")
        #expect(mappings.allSatisfy { $0.sum == 5000 } && other.sum == 5000)
        let nodes = try names.map { try mount.node(of: $0) }
        func cached(_ nodes: [UInt64]) throws -> Int {
            try nodes.reduce(0) { $0 + (try mount.session.cachedByteCount(of: $1, limit: 8192)) }
        }
        #expect(try cached(nodes) >= 5000 * count)

        let report = try temporary.keybag.lock(waiting: 60)
        #expect(report.isClean)
        #expect(try cached(nodes) == 0)
        #expect(mappings.allSatisfy { $0.residentPages == 0 })
        #expect(other.residentPages == 2)
        #expect(try cached([mount.node(of: "none")]) >= 5000)

        try temporary.unlock()
        #expect(mappings.allSatisfy { $0.sum == 5000 })
    }
}
