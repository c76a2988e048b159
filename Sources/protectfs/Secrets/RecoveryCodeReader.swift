import ArgumentParser
import DataProtection

/// Reads a recovery code that somebody wrote down.
enum RecoveryCodeReader {
    /// Bytes that are read, at most: a code, and any spaces that a person puts between.
    private static let maximum = 256

    /// From the descriptor, else from the terminal, which allows two typos.
    ///
    /// The terminal echoes it: nobody types 32 symbols from paper blind, and a code that is right is spent, with the new one
    /// on the same screen.
    static func read(from descriptor: Int32?) throws(Failure) -> RecoveryCode {
        if let descriptor { return try code(in: SecretLine.readArriving(on: descriptor, upTo: maximum)) }
        for _ in 0..<2 {
            let typed = try ask()
            do throws(RecoveryCodeTypo) { return try RecoveryCode(reading: typed) } catch {
                StandardError.line(.warning, error.message)
            }
        }
        return try code(in: ask())
    }

    private static func code(in typed: borrowing SecretBytes) throws(Failure) -> RecoveryCode {
        do throws(RecoveryCodeTypo) { return try RecoveryCode(reading: typed) } catch {
            throw Failure(.usage, error.message, hint: "nothing was tried with it")
        }
    }

    /// The code has a line of its own: it fits into 40 columns.
    private static func ask() throws(Failure) -> SecretBytes {
        guard let typed = try Terminal.ask("Recovery code:\n", upTo: maximum) else {
            throw Failure(
                .usage, "there is no terminal to ask for a recovery code",
                hint: "give it through a file descriptor: \(SecretDescriptor.example("--recovery-code-fd"))")
        }
        return typed
    }
}
