import CSecretMemory
import DataProtection
import Dispatch
import Glibc
import LineLog
import Logging
import SessionLock

/// The program that follows the session and locks. `protectfs agent run` becomes it; its arguments are those of that verb.
@main
struct ProtectfsAgent {
    static func main() async {
        refuseDumps()
        let log = Logger(label: "protectfs-agent") { _ in LineLog("protectfs-agent") }
        do throws(Ending) {
            let arguments = try Arguments(CommandLine.unsafeArgv, count: Int(CommandLine.argc))
            try await run(arguments, log)
        } catch {
            if let reason = error.reason { log.error("\(reason)") }
            exit(error.status.rawValue)
        }
    }

    private static func run(_ arguments: Arguments, _ log: Logger) async throws(Ending) {
        let keybags = try FollowedKeybags(
            at: arguments.keybag ?? Locations.keybag, all: arguments.keybag == nil, log: log)
        let holder = try hold(keybags)
        defer { _ = holder }
        let events: SessionEvents
        do throws(SessionLockError) { events = try SessionEvents() } catch { throw Ending(error) }
        log.info("follows \(keybags.spoken); \(arguments.limits.spoken)")
        let endings = endings()
        defer { withExtendedLifetime(endings.sources) {} }
        var agent = Agent(keybags, limits: arguments.limits, log: log)
        let isDone = await agent.run(events, until: endings.requests)
        log.info("ended")
        // The log has why.
        if !isDone { throw Ending(.notNow, nil) }
    }

    private static func hold(_ keybags: FollowedKeybags) throws(Ending) -> AgentRecord.Holder {
        var program = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        readlink("/proc/self/exe", &program, program.count - 1)
        let record = AgentRecord(
            pid: getpid(), since: UInt64(max(0, time(nil))),
            program: program.withUnsafeBufferPointer { FilePath(platformString: $0.baseAddress!) },
            followsAll: keybags.followsAll)
        do throws(DataProtectionError) {
            if let holder = try record.hold(in: keybags.own.directory) { return holder }
        } catch {
            throw Ending(error)
        }
        let other = AgentRecord(of: keybags.own.directory).map { " (pid \($0.pid))" } ?? ""
        throw Ending(.notNow, "an agent is running already\(other)")
    }

    /// SIGTERM, SIGINT and SIGHUP, for as long as the sources live.
    private static func endings() -> (requests: AsyncStream<Void>, sources: [any DispatchSourceSignal]) {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        let sources = [SIGTERM, SIGINT, SIGHUP].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler { continuation.yield() }
            source.resume()
            return source
        }
        return (stream, sources)
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
