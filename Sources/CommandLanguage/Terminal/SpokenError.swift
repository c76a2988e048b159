/// An error that a command knows how to say.
package protocol SpokenError: Error {
    var exitStatus: ExitStatus { get }
    /// Lower case, no full stop, paths quoted.
    var message: String { get }
    /// What to type next, if anything helps.
    var hint: String? { get }
}
