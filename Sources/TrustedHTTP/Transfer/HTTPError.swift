/// Why there is no response.
public enum HTTPError: Error {
    /// The receiver or the body threw this.
    case refused(by: any Error)
}
