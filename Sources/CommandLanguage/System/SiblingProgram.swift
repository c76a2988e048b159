import DataProtection
import Glibc

/// A program of protectfs that lies beside the running one.
///
/// It is never looked up through PATH: anyone who can put a directory into PATH must not get the keys.
package enum SiblingProgram {
    /// Where the program is that is running.
    package static func command() throws(Failure) -> FilePath {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        guard readlink("/proc/self/exe", &buffer, buffer.count - 1) > 0 else {
            throw Failure(.systemRefused, "/proc/self/exe: \(Errno.current.spoken)")
        }
        return FilePath(platformString: buffer)
    }

    /// Where the program of that name is.
    ///
    /// - Throws: status 69 if it is not installed.
    package static func path(_ name: String) throws(Failure) -> FilePath {
        let program = try command().removingLastComponent().appending(name)
        guard program.withPlatformString({ access($0, F_OK) }) == 0 else {
            let reason = Errno.current
            throw Failure(
                reason == .noSuchFileOrDirectory ? .unavailable : .systemRefused,
                "\(quoted(program)): \(reason.spoken)", hint: remedy(missing: program))
        }
        return program
    }

    /// What installs a program that is missing.
    ///
    /// Packages have these programs in one directory, and each is in the package of its name (Packaging/debian).
    package static func remedy(missing program: FilePath) -> String {
        let name = program.lastComponent?.string ?? "protectfs"
        return program.removingLastComponent() == "/usr/libexec/protectfs"
            ? "install the package \(name)" : "install it beside protectfs: ./install"
    }

    /// Replaces this process by another program of protectfs.
    ///
    /// - Returns: why it could not.
    package static func become(_ name: String, _ words: [[UInt8]]) -> Failure {
        do throws(Failure) {
            let program = try path(name)
            ProcessHardening.restoreBrokenPipe()
            let arguments = CWords([program.bytes] + words)
            let reason = withExtendedLifetime(arguments) {
                _ = program.withPlatformString { execv($0, arguments.pointers) }
                return Errno.current
            }
            return Failure(.systemRefused, "\(quoted(program)): \(reason.spoken)")
        } catch {
            return error
        }
    }
}
