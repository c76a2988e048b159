import Foundation
import Testing

/// Programs that tests write and then run.
enum TestProgram {
    /// Makes an executable file.
    ///
    /// Another process writes it: one that a test next to this one starts at that very moment would inherit this process's
    /// descriptor, and the kernel runs nothing that somebody has open for writing (ETXTBSY).
    static func write(_ text: String, at path: String) throws {
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/bin/sh")
        shell.arguments = ["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\"", path, text]
        try shell.run()
        shell.waitUntilExit()
        try #require(shell.terminationStatus == 0, "\(path)")
    }
}
