import DataProtection
import Glibc

/// A program that asks for a passcode in a window: pinentry, or one like ssh-askpass(1), which gets the question as its
/// argument and prints what was typed.
struct Askpass {
    let program: FilePath

    /// Where there is a display: `PROTECTFS_ASKPASS`, else pinentry.
    static var ofDisplay: Askpass? {
        guard variable("WAYLAND_DISPLAY") != nil || variable("DISPLAY") != nil else { return nil }
        return Askpass(program: variable("PROTECTFS_ASKPASS") ?? "pinentry")
    }

    /// Asks, and takes the answer up to a newline, a NUL or its end.
    ///
    /// - Parameter limit: bytes; a longer answer is cut one byte behind it.
    /// - Throws: status 130 if nobody answered, 66 and 71 if the program cannot be started.
    func ask(_ question: String, upTo limit: Int) throws(Failure) -> SecretBytes {
        Interruption.unblock([SIGINT, SIGTERM, SIGHUP, SIGQUIT])
        if program.lastComponent?.string.hasPrefix("pinentry") == true {
            return try Pinentry(program).ask(question, upTo: limit)
        }
        let asked = try StartedProgram(program, ["protectfs: \(question)"])
        asked.closeInput()
        let answer = try SecretLine.read(from: asked.output, upTo: limit)
        let status = asked.end()
        // One that had more to say was kept from ending well by us.
        guard status == 0 || answer.count > limit else {
            throw Failure(.interrupted, "\(quoted(program)) gave no passcode: it ended with status \(status)")
        }
        return answer
    }

    private static func variable(_ name: String) -> FilePath? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return FilePath(platformString: value)
    }
}
