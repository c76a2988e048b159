/// How something is asked for, in whichever direction it goes.
struct TransferOptions: ParsableArguments {
    @Option(
        name: [.customShort("H"), .long],
        help: ArgumentHelp("A request header; may be repeated.", valueName: "name:value"))
    var header: [HeaderArgument] = []
    @Option(help: ArgumentHelp("Use this proxy: http://HOST:PORT or socks5h://HOST:PORT.", valueName: "url"))
    var proxy: String?
    @Option(
        help: ArgumentHelp("Abandon the transfer after this many failures in a row (default: 30).", valueName: "count"))
    var retries: Int?
    @Option(help: ArgumentHelp("Abandon the transfer after this time: 90s, 10m, 2h (default: 14d).", valueName: "time"))
    var giveUpAfter: DurationArgument?
    @Option(help: ArgumentHelp("The priority: higher numbers start earlier.", valueName: "number"))
    var priority = 0
    @Flag(
        name: .customLong("allow-plain-http"),
        help: "Allow http:// URLs, which others on the network can read and change.")
    var allowsPlainHTTP = false

    func validate() throws {
        if header.contains(where: { ["authorization", "proxy-authorization"].contains($0.name.lowercased()) }) {
            let bearer = SecretDescriptor.example("--bearer-fd")
            throw ValidationError("a credential is never an argument: --user NAME, or \(bearer)")
        }
        if let retries, retries < 1 { throw ValidationError("--retries is 1 at least") }
    }
}
