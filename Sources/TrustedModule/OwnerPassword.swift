package import ProtectionKeys
import Synchronization

/// The password of the owner hierarchy: who has it defines and destroys indices. Most TPMs have none.
///
/// Programs that have a terminal say how to ask for it. It is asked for when a TPM wants it, and kept until the process ends.
package final class OwnerPassword: Sendable {
    /// Bytes, at most: the longest digest of a TPM.
    package static let maximumLength = 64

    /// How a person is asked.
    package struct Question: Sendable {
        /// Whether there is anybody to ask.
        let isPossible: @Sendable () -> Bool
        /// Asks, and says whether an answer before was wrong. Nil: no answer.
        let answer: @Sendable (Bool) -> SecretBytes?

        package init(
            ifPossible isPossible: @escaping @Sendable () -> Bool,
            answer: @escaping @Sendable (_ isAgain: Bool) -> SecretBytes?
        ) {
            self.isPossible = isPossible
            self.answer = answer
        }
    }

    private struct State: ~Copyable {
        var question: Question?
        var answer: SecretBytes?
    }
    private let state = Mutex(State())

    /// Of the machine's TPM. Nobody is asked until a program says how.
    package static let ofMachine = OwnerPassword()

    package init(_ question: Question? = nil) {
        state.withLock { $0.question = question }
    }

    package func ask(_ question: Question) { state.withLock { $0.question = question } }

    /// Whether it is known, or somebody can be asked.
    var isAvailable: Bool { state.withLock { $0.answer != nil || $0.question?.isPossible() == true } }

    /// Lends it.
    ///
    /// - Parameter isAgain: the one before was wrong: it is forgotten.
    /// - Returns: nil if nobody has given one.
    func lend<R>(isAgain: Bool, _ body: (borrowing SecretBytes) -> R) -> R? {
        state.withLock { state in
            if isAgain { state.answer = nil }
            if state.answer == nil, let question = state.question, question.isPossible() {
                state.answer = question.answer(isAgain)
            }
            switch state.answer {
            case .some(let answer) where answer.count <= Self.maximumLength: return body(answer)
            default: return nil
            }
        }
    }
}
