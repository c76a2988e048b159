/// How something is asked for, in whichever direction it goes.
package struct TransferOptions: ParsableArguments {
    @Option(
        name: [.customShort("H"), .long],
        help: ArgumentHelp("A header of the request; may be repeated.", valueName: "name:value"))
    package var header: [HeaderArgument] = []
    @Option(help: ArgumentHelp("Go through it: http://HOST:PORT or socks5h://HOST:PORT.", valueName: "url"))
    package var proxy: String?
    @Option(help: ArgumentHelp("Failures in a row after which it is given up (default: 30).", valueName: "count"))
    package var retries: Int?
    @Option(help: ArgumentHelp("Time after which it is given up, as 90s, 10m, 2h (default: 14d).", valueName: "time"))
    package var giveUpAfter: DurationArgument?
    @Option(help: ArgumentHelp("The higher, the earlier.", valueName: "number"))
    package var priority = 0
    @Flag(name: .customLong("allow-plain-http"), help: "Accept http:// URLs: everybody on the way can read and change.")
    package var allowsPlainHTTP = false

    package init() {}

    package func validate() throws {
        if header.contains(where: { ["authorization", "proxy-authorization"].contains($0.name.lowercased()) }) {
            throw ValidationError("a credential is never an argument: --user NAME, or --bearer-fd 3 3<FILE")
        }
        if let retries, retries < 1 { throw ValidationError("--retries is 1 at least") }
    }
}
