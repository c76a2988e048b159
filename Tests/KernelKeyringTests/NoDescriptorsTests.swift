import Glibc
import SystemPackage
import Testing

@testable import KernelKeyring

@Suite("The keyring without descriptors", .enabled(if: access("/proc/keys", R_OK) == 0, "/proc/keys cannot be read"))
struct NoDescriptorsTests {
    @Test("Nobody says that a key is nowhere else, or stays, where /proc/keys cannot be opened")
    func unread() async {
        await #expect(processExitsWith: .success) {
            let scratch = ScratchKey()
            try scratch.load([1], seconds: 50)
            let limit = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
            var before = rlimit()
            getrlimit(limit, &before)
            var none = rlimit(rlim_cur: 0, rlim_max: before.rlim_max)
            setrlimit(limit, &none)
            let elsewhere = Result { try RingKey.elsewhere([scratch.key]) }
            let left = Result { try scratch.key.timeLeft() }
            let listed = Result { try RingKey.descriptions(withPrefix: scratch.key.description) }
            setrlimit(limit, &before)
            #expect(throws: Errno.tooManyOpenFiles) { try elsewhere.get() }
            #expect(throws: Errno.tooManyOpenFiles) { try left.get() }
            let names = try listed.get()
            #expect(names == [scratch.key.description], "who evicts finds it all the same")
            let leftNow = try scratch.key.timeLeft()
            #expect(leftNow != nil)
        }
    }
}
