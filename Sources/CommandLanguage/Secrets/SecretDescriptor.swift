import ArgumentParser
import Glibc

/// `--WHAT-fd N`, the one way to give a secret without typing it. A secret is never an argument and never in the environment.
///
/// No option takes the name of a file with a secret: a shell can open the file (`3<FILE`), and such an option would invite secrets
/// in files that nobody guards.
package enum SecretDescriptor {
    /// Help of an option whose secret is a line.
    ///
    /// - Parameter what: `the passcode`.
    package static func line(_ what: String) -> ArgumentHelp {
        ArgumentHelp("Read \(what) from this file descriptor, up to a newline, NUL or end of file.", valueName: "n")
    }

    /// Help of an option whose secret is everything that the descriptor gives.
    package static func whole(_ what: String) -> ArgumentHelp {
        ArgumentHelp("Read \(what) from this file descriptor, up to its end.", valueName: "n")
    }

    /// Transforms the argument of such an option: decimal digits, the number of a descriptor that was open when the program began.
    ///
    /// - Throws: for anything else. A number that is not open now could later be that of a file of ours, whose contents would be
    ///   taken for the secret.
    package static func open(_ argument: String) throws -> Int32 {
        guard argument.allSatisfy({ $0.isASCII && $0.isNumber }), let number = Int32(argument) else {
            throw ValidationError("it is not the number of a descriptor")
        }
        let flags = fcntl(number, F_GETFD)
        // What we open is closed by execve(2), so it never was inherited.
        guard flags >= 0, flags & FD_CLOEXEC == 0 else { throw ValidationError("descriptor \(number) is not open") }
        guard fcntl(number, F_GETFL) & O_ACCMODE != O_WRONLY else {
            throw ValidationError("descriptor \(number) is not open for reading")
        }
        return number
    }

    /// How such an option is used, for hints.
    ///
    /// - Parameter option: `--passcode-fd`.
    package static func example(_ option: String) -> String { "\(option) 3 3<FILE" }
}
