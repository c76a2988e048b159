import DataProtection
import Glibc

/// Wraps the keys of all files below the roots, and of the stored secrets, with the new class keys. Repeated from the beginning, it continues.
struct RewrapPass {
    let keybag: Keybag
    let roots: RotationRoots
    var isJSON = false

    /// - Parameter paths: the roots, checked.
    func perform(_ paths: [FilePath]) throws {
        Interruption.watch()
        let run = RotationRun(
            .rewrap, keybag: keybag, threads: roots.jobs.threads, isJSON: isJSON, total: Self.total(paths))
        run.visit(paths)
        if !Interruption.isRequested, !run.isLocked {
            run.outcome.record { try SecretsProgram(keybag: keybag).rewrap(again: resuming) }
        }
        try run.finishDocument(generation: keybag.activeGeneration, retired: keybag.retiredGenerations)
        if Interruption.isRequested {
            throw Failure(
                .interrupted, "interrupted; the other files still open with the retired keys", hint: resuming)
        }
        // Not by another rotation, which would make new keys again.
        if run.outcome.status != .done, run.remainingCount + run.unknownCount > 0 {
            StandardError.line(.hint, "then continue: \(resuming)")
        }
        try run.outcome.leave()
    }

    /// What to type to continue.
    var resuming: String { "protectfs rotate --resume\(roots.words)\(KeybagOption.words(for: keybag.directory))" }

    /// How many files there are, for a person who watches.
    static func total(_ paths: [FilePath]) -> Int64 { isatty(2) == 1 ? RotationRun.count(below: paths) : 0 }
}
