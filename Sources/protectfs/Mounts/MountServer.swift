import DataProtection
import Glibc

/// The program that serves a mount.
struct MountServer {
    /// The directory with the protected files.
    let directory: FilePath
    /// Where their plaintext is shown; the directory itself for a mount over it.
    let point: FilePath
    let isReadOnly: Bool
    /// The keybag's directory.
    let keybag: FilePath

    private static let program = "protectfs-mount"

    private var words: [[UInt8]] {
        get throws {
            (isReadOnly ? [] : [Array("--read-write".utf8)])
                + (try [keybag, directory, point].map { Array(try $0.absolute().bytes) })
        }
    }

    /// Turns this process into it.
    ///
    /// - Returns: why it could not.
    func become() throws -> Failure { SiblingProgram.become(Self.program, try words) }

    /// Starts it, and returns when the mount is there.
    ///
    /// - Throws: the exit status of a server that has said what went wrong.
    func start() throws {
        let path = try SiblingProgram.path(Self.program)
        let server = try StartedProgram(path, words: [Array("--background".utf8)] + words)
        var byte: UInt8 = 0
        while read(server.output, &byte, 1) < 0, errno == EINTR {}
        guard byte == 0 else { return server.leave() }
        let status = server.end()
        if let status = ExitStatus(rawValue: status) { throw status }
        throw Failure(.notNow, "the server of the mount was killed before the mount was there", hint: "try again")
    }
}
