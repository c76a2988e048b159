import ArgumentParser
import DataProtection
import Glibc

/// `--passcode-fd N`, `--askpass PROGRAM`, and the terminal without either.
struct PasscodeOption: ParsableArguments {
    @Option(
        name: .customLong("passcode-fd"),
        help: SecretDescriptor.line("the passcode"), transform: SecretDescriptor.open)
    var descriptor: Int32?
    @Option(
        name: .customLong("askpass"),
        help: ArgumentHelp(
            """
            Ask in a window: pinentry, or a program that prints what is typed (default, with a display and no terminal: \
            PROTECTFS_ASKPASS, else pinentry).
            """, valueName: "program"))
    var askpass: PathArgument?

    /// Whether somebody types the passcode at a terminal.
    var asksAtTerminal: Bool { descriptor == nil && askpass == nil && Terminal.isThere }

    func validate() throws {
        if descriptor != nil, askpass != nil {
            throw ValidationError("--passcode-fd cannot be used with --askpass")
        }
    }
}

/// Reads passcodes, straight into memory for secrets.
enum PasscodeReader {
    /// Bytes of a passcode, at most.
    static let maximum = 1024

    /// From the descriptor; else in a window, if that is asked for; else from the terminal, or in a window where there is none.
    ///
    /// The terminal comes before the window because a display often has nobody in front of it (ssh, tmux).
    /// - Throws: status 64 if there is none of these, or the passcode is empty or longer than 1,024 bytes.
    static func read(from source: PasscodeOption, prompt: String) throws(Failure) -> SecretBytes {
        if let descriptor = source.descriptor { return try line(of: descriptor) }
        return try ask(prompt, source.askpass?.path)
    }

    /// The passcode of a keybag. While a delay runs, it is asked for at a terminal only, after a warning: somebody who types it without
    /// looking must not type it into the shell. The library refuses it if the delay still runs then.
    ///
    /// - Throws: `throttled` while a delay runs, if there is no terminal to ask at; else as ``read(from:prompt:)``.
    static func read(
        from source: PasscodeOption, for keybag: Keybag, prompt: String = "Passcode: "
    ) throws -> SecretBytes {
        if let time = try keybag.status().retryAfter, time > .zero {
            let error = DataProtectionError.because(KeybagFailure.throttled(keybag: keybag.directory, retryAfter: time))
            guard source.asksAtTerminal else { throw error }
            StandardError.line(.warning, error.message)
            StandardError.line(.hint, "press Ctrl-C, and try again in \(spoken(time))")
        }
        return try read(from: source, prompt: prompt)
    }

    /// A passcode that is going to be set: asked for twice where somebody is asked, three times at most.
    static func readNew(
        from descriptor: Int32?, askpass: PathArgument?, option: String = "--passcode-fd", prompt: String
    ) throws(Failure) -> SecretBytes {
        if let descriptor { return try line(of: descriptor) }
        return try TypedTwice.read("passcode", prompt: prompt) { question throws(Failure) in
            try ask(question, askpass?.path, option: option)
        }
    }

    /// One passcode from a descriptor, byte by byte: the bytes behind it are for the next reader.
    static func line(of descriptor: Int32) throws(Failure) -> SecretBytes {
        try usable(SecretLine.readArriving(on: descriptor, upTo: maximum))
    }

    static func ask(
        _ prompt: String, _ askpass: FilePath?, option: String = "--passcode-fd"
    ) throws(Failure) -> SecretBytes {
        let insteadHint = "give it through a file descriptor: \(SecretDescriptor.example(option))"
        if let askpass { return try ask(prompt, in: Askpass(program: askpass), insteadHint) }
        if let passcode = try HiddenInput.ask(prompt, upTo: maximum) { return try usable(passcode) }
        guard let window = Askpass.ofDisplay else {
            throw Failure(.usage, "there is no terminal to ask for a passcode", hint: insteadHint)
        }
        // The person who types a passcode should see which program asks.
        StandardError.line(.note, "there is no terminal: \(quoted(window.program)) asks for the passcode")
        return try ask(prompt, in: window, "name another program: --askpass PROGRAM; or \(insteadHint)")
    }

    /// - Parameter hint: what to do where there is no such program.
    private static func ask(_ prompt: String, in window: Askpass, _ hint: String) throws(Failure) -> SecretBytes {
        do throws(Failure) {
            // A window shows no blank behind the question.
            let question = prompt.hasSuffix(" ") ? String(prompt.dropLast()) : prompt
            return try usable(window.ask(question, upTo: maximum))
        } catch {
            throw error.status == .notFound ? Failure(.notFound, error.message, hint: hint) : error
        }
    }

    private static func usable(_ passcode: consuming SecretBytes) throws(Failure) -> SecretBytes {
        guard passcode.count <= maximum else {
            throw Failure(.usage, "a passcode of more than 1,024 bytes cannot be used")
        }
        guard passcode.count > 0 else { throw Failure(.usage, "an empty passcode cannot be used") }
        return passcode
    }
}
