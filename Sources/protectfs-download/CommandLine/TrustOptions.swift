/// Which servers are believed. docs/guide/SERVER-TRUST.md
struct TrustOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Require this certificate (SHA-256 in hexadecimal) or this key (sha256//BASE64, as in curl) in the server's "
                + "chain. Repeated: one of them.", valueName: "pin"))
    var pin: [String] = []
    @Option(
        help: ArgumentHelp(
            "Trust the certificates in this PEM or DER file as well as the system's; may be repeated.",
            valueName: "file"))
    var anchor: [PathArgument] = []
    @Option(
        help: ArgumentHelp("Trust only the certificates in this file; may be repeated.", valueName: "file"))
    var onlyAnchor: [PathArgument] = []
    @Option(help: ArgumentHelp("Expect a certificate for this host instead of the URL's.", valueName: "name"))
    var expectedHost: String?
    @Flag(
        name: .customLong("no-host-check"),
        help: "Accept a certificate for any host; needs a --pin of the server itself."
    )
    var skipsHostCheck = false

    func validate() throws {
        if !anchor.isEmpty, !onlyAnchor.isEmpty { throw ValidationError("either --anchor or --only-anchor") }
        if skipsHostCheck, expectedHost != nil {
            throw ValidationError("either --expected-host or --no-host-check")
        }
        if skipsHostCheck, pin.isEmpty { throw ValidationError("--no-host-check needs --pin") }
    }
}

/// How the process that runs the list makes connections.
struct ConnectionOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Time limit for making a connection (default: 30s).", valueName: "time"))
    var connectTimeout: DurationArgument?
    @Option(
        help: ArgumentHelp("Retry after this time with almost no data (default: 60s).", valueName: "time")
    )
    var stallTimeout: DurationArgument?
}
