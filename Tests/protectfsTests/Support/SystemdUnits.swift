import Foundation

extension CommandSandbox {
    /// Whose systemd reads a unit.
    enum SystemdInstance: String { case user, system }

    /// What systemd-analyze(1) objects to in a unit, whose programs must be there; nil if it is not installed.
    func objections(to unit: String, named name: String, for instance: SystemdInstance = .user) throws -> String? {
        guard try shell("command -v systemd-analyze").status == 0 else {
            print("skipped: \(name) is not verified: systemd-analyze is not installed")
            return nil
        }
        try put(unit, at: name)
        let done = try shell(
            "XDG_RUNTIME_DIR=$PWD systemd-analyze --\(instance.rawValue) verify --man=no \"$PWD/$0\"", [name])
        // It calls an unknown key a warning.
        return done.errors + done.text + (done.status == 0 ? "" : "status \(done.status)")
    }
}
