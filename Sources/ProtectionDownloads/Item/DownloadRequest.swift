public import DataProtection
public import FoundationEssentials

/// What is to be downloaded, where to, and what must be so before it gets its name.
///
///     var request = DownloadRequest(url, to: "/home/ann/maps/alps.map")
///     request.checks = [.digest(.sha256, sum)]
public struct DownloadRequest: Sendable {
    /// While class keys A and B private are away.
    public enum WhileLocked: String, Hashable, Sendable, Codable {
        /// It goes on: what comes is written as `completeUnlessOpen`.
        case goOn = "continue"
        /// It stops before the keys go, and goes on after the next unlock: what comes is `complete` from its first byte.
        case suspend
    }

    /// `https`, or `http` with ``allowsPlainHTTP``.
    public var url: URL
    /// The file that is to be. Its directory must be there.
    public var target: FilePath
    /// In the order in which they are sent.
    public var headers: [HTTPHeader] = []
    /// Which servers are to be believed.
    public var trust = ServerTrust()
    /// The class of the finished file, at once or after the next unlock. One that is weaker than `completeUnlessOpen` is that of
    /// the partial too.
    public var protectionClass = ProtectionClass.complete
    /// What a lock means.
    public var whileLocked = WhileLocked.goOn
    /// Whether something that has the target's name may be replaced. Looked at when it is added, and again at the end. If what is replaced has a
    /// stronger class than ``protectionClass``, the new file gets that one.
    public var replacesExisting = false
    /// What the bytes must be. All of it is checked before the file gets its name.
    public var checks: [IntegrityCheck] = []
    /// In bytes; what is longer is refused.
    public var maximumLength: UInt64?
    /// The higher, the earlier.
    public var priority = 0
    /// When to try again.
    public var retry = RetryPolicy()
    /// Which servers may be told who we are, besides those that ``credentials`` are for and those of the list
    /// (``DownloadQueue/addCredential(_:)``); the credentials are those of the process that runs the list (``DownloadConnections``).
    public var spaces: [ProtectionSpace] = []
    /// Kept with it, sealed, until it is over. Not there in a request that is read from the list.
    public var credentials: [DownloadCredential] = []
    /// Media types of which the response must be one, as `application/zip` or `image/*`: a page with a form to log in is then an
    /// error, and not the file. Empty: any.
    public var acceptedTypes: [String] = []
    /// How ``target`` is sent to the URL; nil: it is downloaded.
    public private(set) var upload: Upload?
    /// In bytes per second. Downloads with the same limit share it.
    public var bandwidthLimit: UInt64?
    /// The download goes through it in every process; without one through that of ``DownloadConnections``, if there is one.
    ///
    /// It is kept with the download, because a later runner would connect without it, and it may be there to hide the user.
    public var proxy: HTTPProxy?
    /// Whether a `http` URL may be asked for; never with credentials.
    public var allowsPlainHTTP = false
    /// What the program calls it, to find it again.
    public var name: String?

    /// Which file an upload is of, 16 bytes: another one can take its name until it is sent.
    var fileID: [UInt8]?
    /// The proof for the process that added an upload; nil in a request that is not read from the list, and in downloads.
    var adder: Adder?

    /// Proof that the keybag was unlocked for the process that added an upload.
    struct Adder: Sendable {
        let text: [UInt8]
        let mark: UnlockedMark
    }

    /// A download of a URL to a file.
    public init(_ url: URL, to target: FilePath) { (self.url, self.target) = (url, target) }

    /// How a file is sent.
    public enum Upload: String, Hashable, Sendable, Codable, CaseIterable {
        /// The URL is the file's: to send it twice changes nothing (RFC 9110 §9.3.4).
        case put = "PUT"
        /// The URL is of a service that processes the file. The `Idempotency-Key` is the id of the upload: if an acknowledgement is lost, the server
        /// recognizes the second request by it.
        case post = "POST"
    }

    /// An upload: a protected file is sent as it is when it is sent, decrypted, and stays as it is. What the server answers is not kept.
    ///
    /// A `completeUnlessOpen` file that the runner has opened goes on being sent while locked; a `complete` one waits.
    public init(uploading file: FilePath, to url: URL, by method: Upload = .put) {
        self.init(url, to: file)
        upload = method
    }

    /// As it was written down.
    init(_ url: URL, _ target: FilePath, _ upload: Upload?) {
        (self.url, self.target, self.upload) = (url, target, upload)
    }

    /// The class of the file while it is written.
    var partialClass: ProtectionClass {
        if protectionClass < .completeUnlessOpen { return protectionClass }
        return whileLocked == .suspend ? .complete : .completeUnlessOpen
    }

    /// Scheme, host and port: where connections are counted.
    var origin: String {
        let scheme = url.scheme?.lowercased() ?? ""
        let port = url.port ?? (scheme == "http" ? 80 : 443)
        return "\(scheme)://\(url.host()?.lowercased() ?? ""):\(port)"
    }

    /// - Throws: `invalidRequest`.
    func check() throws(DownloadError) {
        var http = HTTPRequest(url)
        (http.headers, http.proxy, http.allowsPlainHTTP) = (headers, proxy, allowsPlainHTTP)
        do throws(HTTPError) { try http.check() } catch { throw .invalidRequest(reason: error.description) }
        if let header = headers.first(where: { ["range", "if-range"].contains($0.name.lowercased()) }) {
            throw .invalidRequest(
                reason: "the header \(header.name) belongs to the download, which goes on where it was")
        }
        guard let name = target.lastComponent, name.kind == .regular, target.isAbsolute else {
            throw .invalidRequest(reason: "the target must be the absolute path of a file")
        }
        if whileLocked == .suspend, protectionClass != .complete {
            throw .invalidRequest(reason: "only a file of class complete can stop while locked")
        }
        for check in checks { try check.check() }
        if upload != nil, !checks.isEmpty || maximumLength != nil {
            throw .invalidRequest(reason: "what is uploaded has no checks")
        }
        if !http.isSecure, !credentials.isEmpty {
            throw .invalidRequest(reason: "no credentials over http://: everybody on the way could read them")
        }
    }
}
