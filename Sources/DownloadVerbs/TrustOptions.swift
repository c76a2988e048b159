/// Which servers are believed. docs/SERVER-TRUST.md
package struct TrustOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The server's key, or another one of its certificates', must have this SHA-256: sha256//BASE64 as curl writes it, "
                + "or hexadecimal. Repeated: one of them.", valueName: "pin"))
    package var pin: [String] = []
    @Option(
        help: ArgumentHelp(
            "Trust the certificates in this file, PEM or DER, beside those of the system; may be repeated.",
            valueName: "file"))
    package var anchor: [PathArgument] = []
    @Option(
        help: ArgumentHelp("Trust the certificates in this file and no others; may be repeated.", valueName: "file"))
    package var onlyAnchor: [PathArgument] = []
    @Option(help: ArgumentHelp("The certificate is for this host, not for the URL's.", valueName: "name"))
    package var expectedHost: String?
    @Flag(
        name: .customLong("no-host-check"), help: "Accept a certificate for any host; needs --pin, of the server's key."
    )
    package var skipsHostCheck = false

    package init() {}

    package func validate() throws {
        if !anchor.isEmpty, !onlyAnchor.isEmpty { throw ValidationError("either --anchor or --only-anchor") }
        if skipsHostCheck, expectedHost != nil {
            throw ValidationError("either --expected-host or --no-host-check")
        }
        if skipsHostCheck, pin.isEmpty { throw ValidationError("--no-host-check needs --pin") }
    }
}

/// How connections are made, by whoever runs the list.
package struct ConnectionOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Time for a connection to be made (default: 30s).", valueName: "time"))
    package var connectTimeout: DurationArgument?
    @Option(
        help: ArgumentHelp("Time with almost no byte, after which it is tried again (default: 60s).", valueName: "time")
    )
    package var stallTimeout: DurationArgument?

    package init() {}
}
