import ArgumentParser
import Glibc

/// `--WHAT-fd N`, the one way to give a secret without typing it. A secret is never an argument and never in the environment.
///
/// There are no options that take the name of a file with a secret: a shell can open the file (`3<FILE`), and such an option would
/// invite secrets in files that nobody guards.
package enum SecretDescriptor {
    /// Transforms the argument of such an option.
    ///
    /// Arguments are parsed before anything is opened. Later the number could be that of a file of ours, whose contents would be
    /// taken for the secret.
    /// - Throws: if that descriptor is not open.
    package static func open(_ number: String) throws -> Int32 {
        guard let descriptor = Int32(number), descriptor >= 0, fcntl(descriptor, F_GETFD) >= 0 else {
            throw ValidationError("no such file descriptor is open")
        }
        return descriptor
    }

    /// How such an option is used, for hints.
    ///
    /// - Parameter option: `--passcode-fd`.
    package static func example(_ option: String) -> String { "\(option) 3 3<FILE" }
}
