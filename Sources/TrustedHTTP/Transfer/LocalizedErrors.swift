public import FoundationEssentials

// What an application shows of an error: the words of its description.

extension HTTPError: LocalizedError {
    /// ``description``: one line, or more where a verdict has several reasons.
    public var errorDescription: String? { description }
}

extension TrustError: LocalizedError {
    /// ``description``.
    public var errorDescription: String? { description }
}

extension TrustExceptionStoreError: LocalizedError {
    /// ``description``.
    public var errorDescription: String? { description }
}

extension ClientIdentityError: LocalizedError {
    /// ``description``.
    public var errorDescription: String? { description }
}
