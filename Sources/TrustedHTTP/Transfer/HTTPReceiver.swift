/// Receives a response as it comes. Called by one thread, in this order: `begin`, `receive`…
///
/// An error that it throws ends the transfer; the caller gets it as ``HTTPError/refused(by:)``.
public protocol HTTPReceiver: AnyObject, Sendable {
    /// The head of the response is there: not of one that is redirected or challenged.
    func begin(_ response: HTTPResponse) throws
    /// The next bytes of its body, as the server sent them: nothing is unzipped. May block, which slows the server down.
    func receive(_ bytes: UnsafeRawBufferPointer) throws
}
