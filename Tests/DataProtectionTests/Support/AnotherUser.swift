import CKeyutils
import Foundation
import POSIXThreads
import SystemPackage

/// For the child of an exit test: a user whose keyring, home and rights are nobody else's.
///
/// As root the process becomes a uid that nobody has; an ordinary user stays who it is, which a test must bear in mind
/// before it touches the whole keyring.
enum AnotherUser {
    /// Changes the uid if that is possible, and the XDG directories in any case; returns where these are now.
    static func become() throws -> FilePath {
        let home = FilePath(NSTemporaryDirectory()).appending("protectfs-user-\(UInt64.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(atPath: home.string, withIntermediateDirectories: false)
        for (variable, name) in [("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")]
        {
            setenv(variable, home.appending(name).string, 1)
        }
        setenv("PROTECTFS_TEST_HOME", home.string, 1)  // so that isolatedHome changes none of these
        unsetenv("PROTECTFS_KEYBAG")
        if geteuid() == 0 {
            let uid = try reservedUID()
            // Root's setuid(2) changes the real, the effective and the saved one.
            guard chown(home.string, uid, uid) == 0, setgroups(0, nil) == 0, setgid(uid) == 0, setuid(uid) == 0,
                // The ring of a uid outlives its processes: an earlier test may have left keys there.
                keyctl_clear(KEY_SPEC_USER_KEYRING) == 0
            else { throw Errno(rawValue: errno) }
        }
        return home
    }

    /// From here on the system makes no thread and no process for this user. Call it after ``become()``: root may have any number.
    static func forbidThreads() throws {
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        guard setrlimit(__rlimit_resource_t(__RLIMIT_NPROC.rawValue), &none) == 0 else { throw Errno(rawValue: errno) }
        guard (try? POSIXThread {}.join()) == nil else { throw Errno.notSupported }
    }

    /// A uid that no other process has from here on, until this process ends.
    ///
    /// The kernel keeps a keyring for every uid there ever was: so a few uids, in turns, and not one for each process.
    private static func reservedUID() throws -> uid_t {
        for number in 0..<64 {
            let lock = FilePath(NSTemporaryDirectory()).appending("protectfs-test-uid-\(number)")
            let descriptor = try FileDescriptor.open(
                lock, .writeOnly, options: [.create, .noFollow], permissions: .ownerReadWrite)
            // Left open: the end of the process lets go of the lock.
            if flock(descriptor.rawValue, LOCK_EX | LOCK_NB) == 0 { return 1_900_000_000 + uid_t(number) }
            try descriptor.close()
        }
        throw Errno.resourceBusy
    }
}
