public import SystemPackage

/// Why an operation of one layer failed, where that layer alone can tell: the reason in ``DataProtectionError/because(_:)``.
///
/// It is no `Error`, so that it cannot be thrown, or waited for in a `catch`, without the ``DataProtectionError`` around it.
public protocol LayerFailure: Hashable, Sendable {
    /// The POSIX error that says the same.
    var errno: Errno { get }
}
