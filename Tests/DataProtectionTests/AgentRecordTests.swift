import Glibc
import SystemPackage
import Testing

@testable import DataProtection

@Suite("The agent's record, and the agent's other uses of a keybag")
struct AgentRecordTests {
    private let record = AgentRecord(pid: 4711, since: 1_700_000_000, program: "/opt/a b/\n agent", followsAll: true)

    @Test("Is there while it is held, by one only, and gone with its holder")
    func holding() throws {
        let bag = try TestKeybag()
        #expect(try AgentRecord.running(in: bag.directory) == nil)
        var holder = try record.hold(in: bag.directory)
        #expect(holder != nil)
        #expect(try AgentRecord.running(in: bag.directory) == record)
        #expect(try record.hold(in: bag.directory) == nil)
        holder = nil
        #expect(try AgentRecord.running(in: bag.directory) == nil, "the text stays, the lock is what counts")
        #expect(try record.hold(in: bag.directory) != nil)
        #expect(try bag.file("agent").mode() == 0o600)
    }

    @Test("Nonsense is no record", arguments: ["", "pid", "pid x\nsince 1\nfollows all\nprogram /a", "a\nb\nc\nd"])
    func nonsense(text: String) throws {
        let bag = try TestKeybag()
        let holder = try record.hold(in: bag.directory)
        try bag.file("agent").overwrite(Array(text.utf8))
        expectError("busy") { _ = try AgentRecord.running(in: bag.directory) }
        _ = holder
    }

    @Test("An agent's record that cannot be read is an error, and is not called absent")
    func unreachable() throws {
        let bag = try TestKeybag()
        #expect(symlink("/nowhere/agent", bag.file("agent").string) == 0)
        expectError("system") { _ = try AgentRecord.running(in: bag.directory) }
    }

    @Test("Goes with an erased keybag; a file of that name that is none of ours stays")
    func erasure() throws {
        let bag = try TestKeybag()
        _ = try record.hold(in: bag.directory)
        #expect(try KeybagErasure(at: bag.directory).perform() == [])
        let other = try TestKeybag()
        try other.file("agent").overwrite(Array("mine".utf8))
        #expect(try KeybagErasure(at: other.directory).perform().map(\.lastComponent?.string) == ["agent"])
    }

    @Test("A keybag is locked by its name alone, when its directory has gone")
    func lockByName() throws {
        let bag = try TestKeybag(state: .unlocked)
        try Keybag.lock(bag.keybag.uuid)
        #expect(try bag.keybag.state() == .locked)
        try bag.unlock()
        try bag.directory.remove()
        try Keybag.lock(bag.keybag.uuid)
        #expect(bag.ringContents == [2])
    }

    @Test("The configuration has times for it")
    func configuration() throws {
        let text = "default-class = complete\nagent-grace = 0\nagent-idle=15m\n agent-max = 2h # and no more"
        let configuration = try UserConfiguration(parsing: text, at: "config")
        #expect(configuration.defaultClass == .complete)
        #expect(configuration.agentGrace == .zero)
        #expect(configuration.agentIdle == .seconds(900))
        #expect(configuration.agentMax == .seconds(7200))
        for line in ["agent-idle = 0", "agent-max = soon", "agent-grace = -1", "agent = 1", "agent-idle"] {
            expectError("configuration") { _ = try UserConfiguration(parsing: line, at: "config") }
        }
    }
}
