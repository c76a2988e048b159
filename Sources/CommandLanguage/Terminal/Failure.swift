import DataProtection

/// What went wrong, as the user reads it: what and where, what to do next, and the exit status.
package struct Failure: Error {
    package let status: ExitStatus
    /// Lower case, no full stop, paths quoted.
    package let message: String
    /// What to type next, if anything helps.
    package let hint: String?

    package init(_ status: ExitStatus, _ message: String, hint: String? = nil) {
        self.status = status
        self.message = message
        self.hint = hint
    }

    /// Any error that a verb can throw.
    package init(_ error: any Error) {
        switch error {
        case let failure as Failure: self = failure
        case let error as any SpokenError: self.init(error.exitStatus, error.message, hint: error.hint)
        default: self.init(.bug, "unexpected: \(error)")
        }
    }

    /// The same of a verb that has --replace.
    package init(replaceable error: any SpokenError) {
        let isThere = error.exitStatus == .exists
        self.init(error.exitStatus, error.message, hint: isThere ? "to replace it: --replace" : error.hint)
    }

    /// Prints the error and its hint.
    package func report() {
        StandardError.line(.error, message)
        if let hint { StandardError.line(.hint, hint) }
    }
}

/// What came of a verb that goes on after failures.
package final class Outcome {
    package init() {}

    package private(set) var status = ExitStatus.done
    private var hints: Set<String> = []

    /// Prints an error at once; of equal hints only the first.
    package func record(_ error: any Error) {
        let failure = Failure(error)
        StandardError.line(.error, failure.message)
        if let hint = failure.hint, hints.insert(hint).inserted { StandardError.line(.hint, hint) }
        status = status.joined(failure.status)
    }

    /// Takes the status of something that has said itself what went wrong.
    package func record(_ part: () throws -> ExitStatus) {
        do { status = status.joined(try part()) } catch { record(error) }
    }

    /// What went well; the rest is printed.
    package func values<Value>(of results: [Result<Value, some Error>]) -> [Value] {
        results.compactMap { result in
            do { return try result.get() } catch {
                record(error)
                return nil
            }
        }
    }

    /// Ends the command with what was recorded.
    package func leave() throws(ExitStatus) {
        if status != .done { throw status }
    }
}
