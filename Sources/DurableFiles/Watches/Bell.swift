import Dispatch
import Glibc
import ProtectionKeys
import SystemPackage

/// A file `bell` beside a database: replaced whenever that has changed, so that other processes look at it. It says nothing, and
/// nobody depends on it: after a kill somebody rings again, or looks.
package struct Bell: Sendable {
    package static let name = "bell"

    /// Where the database is.
    package let directory: FilePath

    package init(directory: FilePath) { self.directory = directory }

    /// Wakes everybody who listens. That it cannot be rung keeps nobody from anything.
    package func ring() {
        let path = directory.appending(Self.name)
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
        let temporary = (try? Randomness.bytes(8)).map {
            directory.appending("\(Self.name).\(Hexadecimal.text($0))")
        }
        let file = temporary?.withPlatformString { Glibc.open($0, flags, 0o600) } ?? -1
        guard let temporary, file >= 0 else {
            // No room, no descriptor, or no random number. That it goes is heard too.
            _ = path.withPlatformString { unlink($0) }
            return
        }
        close(file)
        let isRung = temporary.withPlatformString { old in path.withPlatformString { rename(old, $0) } } == 0
        if !isRung { _ = temporary.withPlatformString { unlink($0) } }
    }
}

/// Hears the bell, by inotify(7); where that does not work it is as if it rang once a second. Until it is cancelled or goes.
package final class BellListener: Sendable {
    private final class Watched: Sendable {
        let watch: DirectoryWatch
        init(_ watch: consuming DirectoryWatch) { self.watch = watch }
    }

    private let source: any DispatchSourceProtocol & Sendable

    /// - Parameter heard: must not wait for anything.
    package init(_ bell: Bell, heard: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "protectfs.bell")
        if let watched = try? Watched(Self.watch(bell.directory)) {
            let reading = DispatchSource.makeReadSource(fileDescriptor: watched.watch.descriptor, queue: queue)
            reading.setEventHandler {
                _ = watched.watch.drain()
                heard()
            }
            // The descriptor must outlive the source.
            reading.setCancelHandler { withExtendedLifetime(watched) {} }
            source = reading as! DispatchSource
        } else {
            let timer = DispatchSource.makeTimerSource(queue: queue)
            timer.schedule(deadline: .now() + 1, repeating: 1)
            timer.setEventHandler(handler: heard)
            source = timer as! DispatchSource
        }
        source.resume()
    }

    deinit { source.cancel() }

    private static func watch(_ directory: FilePath) throws(Errno) -> DirectoryWatch {
        let watch = try DirectoryWatch()
        try watch.add(directory)
        return watch
    }
}
