import DataProtection
import Glibc

/// The secrets of a keybag, for verbs that are about all of it. `protectfs-secrets` does what is to be done: no other program loads
/// a database. What goes wrong it says itself.
struct SecretsProgram {
    let keybag: Keybag
    private var hasSecrets: Bool {
        get throws(Failure) {
            do throws(DataProtectionError) { return try keybag.hasSecrets } catch { throw Failure(error) }
        }
    }

    /// Brings all of them under new class keys.
    ///
    /// - Parameter again: what to type if something kills the program.
    func rewrap(again: String) throws(Failure) -> ExitStatus {
        guard try hasSecrets else { return .done }
        return try run(["rewrap"], again: again)
    }

    /// Whether all of them are.
    var areCurrent: Bool {
        get throws(Failure) { try hasSecrets ? try run(["rewrap", "--check"]) == .done : true }
    }

    /// Copies them into a backup as they are stored.
    ///
    /// - Parameter removesDeleted: whether to remove copies of secrets that are no longer in the store.
    func copy(into backup: Backup, removingDeleted removesDeleted: Bool) throws -> ExitStatus {
        guard try hasSecrets else {
            if try backup.hasSecrets() { StandardError.warnOfNoSecrets(in: backup.path) }
            return .done
        }
        let names = try backup.secretsKeyNames(of: keybag).encoded
        return try run(
            ["copy-to-backup"] + (removesDeleted ? ["--delete"] : []), in: backup,
            SecretBytes(byteCount: names.count) { $0.copyBytes(from: names) })
    }

    /// Brings those of a backup back.
    func restore(from backup: Backup, _ opened: OpenedBackup, _ options: [String]) throws -> ExitStatus {
        guard try backup.hasSecrets() else { return .done }
        return try run(["restore-from-backup"] + options, in: backup, opened.secretsKeys())
    }

    /// - Parameters:
    ///   - backup: what it works in: it gets the open directory, because something else may have its path by now.
    ///   - input: what it reads.
    ///   - again: what to type if something kills it.
    /// - Throws: status 71 if something kills it.
    private func run(
        _ words: [String], in backup: Backup? = nil, _ input: consuming SecretBytes = SecretBytes(zeroed: 0),
        again: String = "run the command again"
    ) throws(Failure) -> ExitStatus {
        let program = try SiblingProgram.path("protectfs-secrets")
        let words = words.map { Array($0.utf8) } + (backup.map { [$0.path.bytes] } ?? [])
        let started = try StartedProgram(
            program, words: words + [Array("--keybag".utf8), keybag.directory.bytes],
            inherited: backup?.directory.descriptor)
        input.withUnsafeBytes { bytes in
            var done = 0
            // One that has ended already says why by its status.
            while done < bytes.count {
                let count = write(started.input, bytes.baseAddress! + done, bytes.count - done)
                if count < 0, errno != EINTR { break }
                done += max(count, 0)
            }
        }
        let status = started.end()
        guard let known = ExitStatus(rawValue: status) else {
            if status > 128 {
                throw Failure(
                    .systemRefused, "\(quoted(program)) was ended by signal \(status - 128) before it was done",
                    hint: "to continue: \(again)")
            }
            throw Failure(.bug, "\(quoted(program)) ended with status \(status) and gave no reason")
        }
        return known
    }
}
