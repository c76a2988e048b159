import CommandLanguage
import DataProtection
import Dispatch
import Glibc

/// SIGTERM, SIGINT and SIGHUP unmount; the server ends when the kernel says that it is unmounted.
///
/// No program can open a file there from then on. Those that have files open keep them, and a lock goes on to take their pages away, until
/// the last of these files is closed.
enum UnmountAtSignal {
    // Set once, before any thread is there.
    private nonisolated(unsafe) static var sources: [any DispatchSourceSignal] = []

    static func watch(_ point: FilePath) {
        sources = [SIGTERM, SIGINT, SIGHUP].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler { unmount(point) }
            source.resume()
            return source
        }
    }

    private static func unmount(_ point: FilePath) {
        let words = CWords(["fusermount3".utf8, "-u".utf8, "-z".utf8].map { Array($0) } + [point.bytes])
        var child = pid_t()
        guard posix_spawnp(&child, words.pointers[0]!, nil, nil, words.pointers, environ) == 0 else { return }
        var status: Int32 = 0
        while waitpid(child, &status, 0) == -1 && errno == EINTR {}
    }
}
