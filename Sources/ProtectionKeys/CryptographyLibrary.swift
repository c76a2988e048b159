/// The libcrypto that this process runs with, which need not be the one it was built with.
public enum CryptographyLibrary {
    /// Its first version number: 3 is needed.
    public static var majorVersion: Int { LibCrypto.version.major }
    /// What it says of itself, such as `OpenSSL 3.0.15 3 Sep 2024`.
    public static var version: String { LibCrypto.version.text }
}
