import Glibc
import ProtectionFormat
import Testing

@testable import DataProtection

#if compiler(>=6.3)
    @Suite("A child of fork(2)")
    struct LockListenerForkTests {
        @Test("Has no thread of its parent's, and makes one when it listens")
        func child() async {
            await #expect(processExitsWith: .success) {
                let bag = try TestKeybag(state: .unlocked)
                let ours = Heard<EventRecord.Kind?>()
                let observation = try LockListener.shared.observe(bag.directory, of: bag.keybag.uuid) {
                    ours.append($0?.kind)
                    return nil
                }
                try #require(await ours.waits { !$0.isEmpty })
                var ready: [Int32] = [-1, -1]
                try #require(pipe(&ready) == 0)
                // Swift hides fork(2), because hardly anything can be done in the child of a process with threads.
                let fork = unsafeBitCast(dlsym(nil, "fork"), to: (@convention(c) () -> pid_t).self)
                let child = fork()
                if child == 0 {
                    let heard = Heard<EventRecord.Kind?>()
                    let observation = try? LockListener.shared.observe(bag.directory, of: bag.keybag.uuid) {
                        heard.append($0?.kind)
                        return nil
                    }
                    for _ in 0..<6000 {
                        if heard.all == [nil] { write(ready[1], "r", 1) }
                        if heard.all.last == .didBecomeUnavailable { _exit(0) }
                        usleep(5000)
                    }
                    _exit(observation == nil ? 2 : 3)
                }
                var byte: UInt8 = 0
                try #require(read(ready[0], &byte, 1) == 1)
                try bag.keybag.lock()
                var status: Int32 = -1
                waitpid(child, &status, 0)
                #expect(status == 0)
                #expect(await ours.waits { $0.last == .didBecomeUnavailable }, "and the parent's goes on")
                observation.cancel()
            }
        }
    }
#endif
