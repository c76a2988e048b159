/// Who takes a response as it comes. Called by one thread, in this order: `begin`, `receive`…
///
/// What it throws ends the transfer; whoever asked for it gets it as ``HTTPError/refused(by:)``.
public protocol HTTPReceiver: AnyObject, Sendable {
    /// The head of the response is there: not of one that is redirected or challenged.
    func begin(_ response: HTTPResponse) throws
    /// The next bytes of its body, as the server sent them: nothing is unzipped. May block, which slows the server down.
    func receive(_ bytes: UnsafeRawBufferPointer) throws
}
