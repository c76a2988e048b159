import CSecretMemory
import DataProtection
import Glibc
import LineLog
import Logging
import POSIXThreads
import SessionLock

/// The program that follows the session and locks. `protectfs agent run` becomes it; its arguments are those of that verb.
///
/// Its threads are made when it starts. From then on it needs no new one: a lock goes on where the user may have no more processes and threads.
@main
struct ProtectfsAgent {
    static func main() {
        refuseDumps()
        let log = Logger(label: "protectfs-agent") { _ in LineLog("protectfs-agent") }
        do throws(Ending) {
            let arguments = try Arguments(CommandLine.unsafeArgv, count: Int(CommandLine.argc))
            try run(arguments, log)
        } catch {
            if let reason = error.reason { log.error("\(reason)") }
            exit(error.status.rawValue)
        }
    }

    private static func run(_ arguments: Arguments, _ log: Logger) throws(Ending) {
        let inbox = Inbox()
        do throws(POSIXThread.Refusal) {
            try AwaitedSignals.each(of: [SIGTERM, SIGINT, SIGHUP]) { inbox.put(.end) }
        } catch {
            throw Ending(.systemRefused, "no thread can be made: \(Errno(rawValue: error.code).spoken)")
        }
        let keybags = try FollowedKeybags(
            at: arguments.keybag ?? Locations.keybag, all: arguments.keybag == nil, log: log)
        let holder = try hold(keybags)
        defer { _ = holder }
        let events: SessionEvents
        do throws(SessionLockError) {
            events = try SessionEvents { inbox.put(.session($0)) }
        } catch { throw Ending(error) }
        defer { withExtendedLifetime(events) {} }
        log.info("follows \(keybags.spoken); \(arguments.limits.spoken)")
        var agent = Agent(keybags, limits: arguments.limits, hearing: inbox, log: log)
        let isDone = agent.run()
        log.info("ended")
        // The log has why.
        if !isDone { throw Ending(.notNow, nil) }
    }

    private static func hold(_ keybags: FollowedKeybags) throws(Ending) -> AgentRecord.Holder {
        var program = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        readlink("/proc/self/exe", &program, program.count - 1)
        let record = AgentRecord(
            pid: getpid(), since: UInt64(max(0, time(nil))),
            program: FilePath(platformString: program),
            followsAll: keybags.followsAll)
        do throws(DataProtectionError) {
            if let holder = try record.hold(in: keybags.own.directory) { return holder }
        } catch {
            throw Ending(error)
        }
        let other = (try? AgentRecord.running(in: keybags.own.directory)).map { " (pid \($0.pid))" } ?? ""
        throw Ending(.notNow, "an agent is running already\(other)")
    }

    /// As the command itself does. Best effort: the agent reads keys for moments only.
    private static func refuseDumps() {
        _ = protectfs_refuse_dumps()
        var limit = rlimit(rlim_cur: 1, rlim_max: 1)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
        signal(SIGPIPE, SIG_IGN)
        // A limit on the size of files must not keep it from locking.
        signal(SIGXFSZ, SIG_IGN)
    }
}
