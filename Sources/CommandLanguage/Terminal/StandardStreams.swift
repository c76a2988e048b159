import DataProtection
import Glibc

/// Standard error: lines of the form `protectfs: error: …`.
package enum StandardError {
    package enum Kind: String {
        case error, warning, note, hint
    }

    /// Prints one line, after taking away a progress bar that stands there. What a terminal would obey is written as a number: messages
    /// quote files, names and settings in which others have a say.
    package static func line(_ kind: Kind, _ text: String) {
        Progress.clear()
        raw("protectfs: \(kind.rawValue): \(printable(text))\n")
    }

    /// The store of secrets is empty, or has gone, and a backup has some.
    package static func warnOfNoSecrets(in backup: FilePath) {
        line(.warning, "the keybag has no secrets; those in the backup stay")
        line(.hint, "to restore them: protectfs restore \(quoted(backup)) --to DIR")
    }

    /// Prints as it is. That nobody reads it is no reason to stop.
    package static func raw(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            var done = 0
            while done < bytes.count {
                let count = Glibc.write(2, bytes.baseAddress! + done, bytes.count - done)
                if count < 0 && errno != EINTR { return }
                done += max(count, 0)
            }
        }
    }
}

/// Standard output: results, and nothing else.
package enum StandardOutput {
    /// Whether a person reads it.
    package static var isTerminal: Bool { isatty(1) == 1 }

    /// Writes all of `buffer`. When the reader has gone, dies of SIGPIPE, as every other filter does.
    ///
    /// - Throws: status 74.
    package static func write(_ buffer: UnsafeRawBufferPointer) throws(Failure) {
        var done = 0
        while done < buffer.count {
            let count = Glibc.write(1, buffer.baseAddress! + done, buffer.count - done)
            if count >= 0 {
                done += count
                continue
            }
            switch errno {
            case EINTR: continue
            case EAGAIN:
                var ready = pollfd(fd: 1, events: Int16(POLLOUT), revents: 0)
                poll(&ready, 1, -1)
            case EPIPE: endUnread()
            default:
                throw Failure(.inputOutput, "standard output: \(Errno(rawValue: errno).spoken)")
            }
        }
    }

    /// Ends the process if nobody reads any more, for a command that has nothing to write.
    package static func endIfUnread() {
        var output = pollfd(fd: 1, events: 0, revents: 0)
        if poll(&output, 1, 0) > 0, Int32(output.revents) & POLLERR != 0 { endUnread() }
    }

    private static func endUnread() -> Never {
        signal(SIGPIPE, SIG_DFL)
        raise(SIGPIPE)
        Glibc.exit(ExitStatus.inputOutput.rawValue)  // only where SIGPIPE is blocked
    }

    /// Writes text.
    package static func write(_ text: String) throws(Failure) { try write(Array(text.utf8)) }

    /// Writes bytes.
    package static func write(_ bytes: [UInt8]) throws(Failure) {
        let result = bytes.withUnsafeBytes { buffer -> Result<Void, Failure> in
            do throws(Failure) { return .success(try write(buffer)) } catch { return .failure(error) }
        }
        try result.get()
    }
}

/// Lines for standard output, written 64 KiB at a time.
package struct OutputLines {
    private var bytes: [UInt8] = []

    package init() {}

    /// Adds a line.
    package mutating func add(_ line: [UInt8]) throws(Failure) {
        bytes += line
        bytes.append(UInt8(ascii: "\n"))
        if bytes.count > 64 * 1024 { try finish() }
    }

    /// Writes what is left.
    package mutating func finish() throws(Failure) {
        try StandardOutput.write(bytes)
        bytes.removeAll(keepingCapacity: true)
    }
}

/// A name for a list: as it is for programs, quoted for a terminal where it would do something there.
package func listed(_ path: FilePath, toTerminal: Bool = StandardOutput.isTerminal) -> [UInt8] {
    let bytes = StoredPlace.shown(path).bytes
    return toTerminal && hasUnprintable(bytes) ? Array(quoted(path).utf8) : bytes
}
