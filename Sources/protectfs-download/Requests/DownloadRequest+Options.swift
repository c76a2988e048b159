import FoundationEssentials

extension DownloadRequest {
    /// What the command line asks for.
    init(
        _ text: String, to target: TargetOptions, _ options: RequestOptions, _ trust: ServerTrust,
        _ credentials: GivenCredentials
    ) throws {
        guard let url = URL(string: text) else { throw Failure(.usage, "\(quoted(text)) is not a URL") }
        self.init(url, to: try target.path(for: url))
        self.trust = trust
        self.credentials = try credentials(for: url)
        protectionClass = options.protectionClass
        whileLocked = options.whileLocked == .suspend ? .suspend : .goOn
        replacesExisting = target.replace
        checks = options.checks
        acceptedTypes = options.acceptType
        maximumLength = options.maxSize?.bytes
        bandwidthLimit = options.limitRate?.bytes
        try take(options.transfer)
    }

    /// What holds for both directions.
    mutating func take(_ options: TransferOptions) throws {
        headers = options.header.map { HTTPHeader($0.name, $0.value) }
        priority = options.priority
        proxy = try options.proxy.map { try HTTPProxy($0) }
        allowsPlainHTTP = options.allowsPlainHTTP
        if let retries = options.retries { retry.maximumFailures = retries }
        if let time = options.giveUpAfter { retry.maximumTime = .seconds(time.seconds) }
    }

    /// Whether it comes at another pace than `other`, which changes nothing of what comes.
    func isPacedOtherwise(than other: DownloadRequest) -> Bool {
        bandwidthLimit != other.bandwidthLimit || retry != other.retry || priority != other.priority
    }

    /// Whether going on with `other` gives what was asked for here.
    ///
    /// A download that somebody added without a checksum must not pass for one with it. Credentials do not count: they can be
    /// replaced.
    func isSatisfied(by other: DownloadRequest) -> Bool {
        url == other.url && target == other.target && headers == other.headers && trust == other.trust
            && protectionClass == other.protectionClass && whileLocked == other.whileLocked && checks == other.checks
            && replacesExisting == other.replacesExisting && maximumLength == other.maximumLength
            && allowsPlainHTTP == other.allowsPlainHTTP && spaces == other.spaces && proxy == other.proxy
            && acceptedTypes == other.acceptedTypes && upload == other.upload
    }
}

extension TransferOptions {
    /// Says what others may see.
    func warn() {
        guard header.contains(where: { $0.name.lowercased() == "cookie" }) else { return }
        StandardError.line(.warning, "others on this machine can read a cookie in the arguments of a program")
    }
}

extension WantedFiles {
    /// One for each URL; what is wrong with one is recorded, and the others go on. May ask for a password.
    func requests(_ outcome: Outcome) throws -> [DownloadRequest] {
        options.warn()
        options.transfer.warn()
        let (trust, given) = (try trust.trust(), try credentials.given())
        var taken: [FilePath: URL] = [:]
        return outcome.values(
            of: urls.map { url in
                Result {
                    let request = try DownloadRequest(url, to: target, options, trust, given)
                    // With --replace the second one would replace the first.
                    guard taken[request.target, default: request.url] == request.url else {
                        throw Failure(
                            .usage, "\(quoted(url)): another URL is to be \(quoted(request.target)) already",
                            hint: "give each a name of its own, by a command of its own with --output")
                    }
                    taken[request.target] = request.url
                    return request
                }
            })
    }
}

extension RequestOptions {
    /// What the bytes must be.
    fileprivate var checks: [IntegrityCheck] {
        var checks: [IntegrityCheck] = []
        if let length { checks.append(.length(length)) }
        let digests: [(RunningDigest.Algorithm, DigestArgument?)] = [
            (.sha256, sha256), (.sha512, sha512), (.md5, md5), (.sha1, sha1),
        ]
        for (algorithm, digest) in digests { if let digest { checks.append(.digest(algorithm, digest.bytes)) } }
        if let hmac { checks.append(.hmacSHA256(keyID: hmac.keyID, tag: hmac.tag)) }
        return checks
    }

    /// Says what a sum is not worth.
    fileprivate func warn() {
        guard md5 != nil || sha1 != nil, !checks.contains(where: \.isTamperProof) else { return }
        StandardError.line(.warning, "MD5 and SHA-1 show accidents, not tampering: give --sha256 too, if there is one")
    }
}
