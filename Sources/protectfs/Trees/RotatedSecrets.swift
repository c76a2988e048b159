import DataProtection

/// The secrets of a keybag that is rotated. `protectfs-secrets` does that: no other program loads a database.
struct RotatedSecrets {
    let keybag: Keybag

    /// Brings all of them under the new class keys. What goes wrong is said at once.
    func rewrap() throws(Failure) -> ExitStatus { try run([]) }

    /// Whether all of them are.
    var areCurrent: Bool { get throws(Failure) { try run(["--check"]) == .done } }

    private func run(_ options: [String]) throws(Failure) -> ExitStatus {
        guard keybag.hasSecrets else { return .done }
        let program = try SiblingProgram.command().removingLastComponent().appending("protectfs-secrets")
        let started = try StartedProgram(program, ["rewrap", "--keybag", keybag.directory.string] + options)
        return ExitStatus(rawValue: started.end()) ?? .bug
    }
}
