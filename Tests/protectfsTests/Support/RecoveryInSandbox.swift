import Foundation

@testable import DataProtection

extension CommandSandbox {
    /// Makes a recovery code at little cost, as if it had been written down.
    func makeRecoveryCode() throws -> String {
        let code = try RecoveryCode.random()
        let passcode = SecretBytes(byteCount: Self.passcode.utf8.count) { $0.copyBytes(from: Self.passcode.utf8) }
        try Keybag(at: FilePath(keybagDirectory)).open(passcode: passcode).setRecoveryCode(code, iterations: 1000)
        return code.grouped().withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// `passcode --with-recovery-code` without a terminal.
    func recover(with code: String, passcode: String = "new") throws -> Finished {
        try run(
            "passcode", "--with-recovery-code", "--recovery-code-fd", "3", "--new-passcode-fd", "3",
            passcodes: Data("\(code)\n\(passcode)\n".utf8))
    }

    /// The status of an unlock.
    func unlocks(with passcode: String) throws -> Int32 {
        try run("unlock", "--passcode-fd", "3", passcodes: Data(passcode.utf8)).status
    }

    /// Every file of the keybag's directory, by name.
    func keybagFiles() throws -> [String: Data] {
        var files: [String: Data] = [:]
        // What is in `run` is no part of the keybag.
        for name in try FileManager.default.contentsOfDirectory(atPath: keybagDirectory) where name != "run" {
            files[name] = try Data(contentsOf: URL(fileURLWithPath: keybagDirectory + "/" + name))
        }
        return files
    }
}

extension Finished {
    /// Standard output, if it is a recovery code and nothing else.
    var recoveryCode: String? {
        text.wholeMatch(of: /((?:[0-9A-Z]{4}-){7}[0-9A-Z]{4})\n/).map { String($0.output.1) }
    }
}
