import Foundation
import Testing

@testable import DataProtection

/// Must show 4: the memory of everybody who used the keys, when the agent has locked.
@Suite("After a lock by the agent, memory")
struct AgentMemoryTests {
    @Test("In five processes with open files, and in the agent, nothing opens a complete file 100 ms after the lock")
    func nothingIsLeft() throws {
        let bed = try AgentBed("--grace", "0")
        let sandbox = bed.sandbox
        try CrowdInSandbox.makeFiles(sandbox)
        let workers = try [["read"], ["read"], ["read"], ["write", "one"], ["write", "two"]].map {
            try CrowdInSandbox(sandbox, $0)
        }
        usleep(200_000)  // they read and write

        try bed.bus.lock("1")
        #expect(try bed.becomes(.locked) == .locked)
        usleep(100_000)
        let answer = try MemorySearch(
            "AgentMemoryTests", sandbox, workers.map(\.pid) + [bed.agent.pid], options: ["--own", "\(bed.agent.pid)"])
        guard let answer else { return }
        #expect(answer.processes.count == 6)
        for name in ["class key A", "class key B private", "chunk key of complete", "file key of two"] {
            #expect(answer.names.contains { $0.hasPrefix(name) })
        }
        #expect(answer.texts.contains("text of complete"))
        for worker in workers.prefix(3) {
            let found = try #require(answer[worker.pid])
            #expect(found.planted?.isEmpty == false, "the search finds the key of an open B handle")
        }
        for (pid, found) in answer.processes {
            #expect(found.found == [:], "process \(pid); the agent is \(bed.agent.pid)")
            #expect(try #require(found.bytes) > 1_000_000)
            #expect(found.unreadable?.allSatisfy { $0.hasPrefix("/secretmem") || $0.hasPrefix("[vvar") } == true)
        }
        #expect(bed.agent.log.contains("goes on; it has unless-open files open: 1"))
    }
}
