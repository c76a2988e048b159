import ArgumentParser
import DataProtection

/// Changes the passcode.
struct Passcode: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "passcode", abstract: "Change the passcode; no file is touched.",
        discussion: """
            The keybag must be unlocked. Copies of the keybag that were made earlier still open with the old passcode. \
            --passcode-fd and --new-passcode-fd may be the same: the current passcode first, one a line.
            """)

    @OptionGroup var passcode: PasscodeOption
    @Option(
        name: .customLong("new-passcode-fd"),
        help: ArgumentHelp("Read the new passcode from this file descriptor instead of asking.", valueName: "n"))
    var newDescriptor: Int32?
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if let newDescriptor, newDescriptor < 0 { throw ValidationError("--new-passcode-fd needs a file descriptor") }
    }

    func run() throws {
        let keybag = try keybag.open()
        let status = try keybag.status()
        guard status.state == .unlocked else {
            throw DataProtectionError.locked(
                path: keybag.directory, .complete, .changePasscode, state: status.state, since: status.lastTransition)
        }
        // Nobody types passcodes that are not going to be tried.
        if let seconds = status.retryAfter, seconds > 0 {
            throw DataProtectionError.throttled(keybag: keybag.directory, retryAfter: seconds)
        }
        let current = try PasscodeReader.read(from: passcode.descriptor, prompt: "Current passcode: ")
        let new = try PasscodeReader.readNew(
            from: newDescriptor, option: "--new-passcode-fd", prompt: "New passcode: ")
        try keybag.changePasscode(from: current, to: new)
    }
}
