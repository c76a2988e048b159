/// What is asked for, and what must be so before a file gets its name.
package struct RequestOptions: ParsableArguments {
    @Option(
        name: .customLong("class"),
        help: ArgumentHelp("The class of the finished file (default: complete).", valueName: "class"))
    package var wantedClass: ProtectionClass?
    package var protectionClass: ProtectionClass { wantedClass ?? .complete }
    @Option(help: ArgumentHelp("What a lock means: continue, or suspend until the next unlock.", valueName: "what"))
    package var whileLocked = WhileLocked.continue

    @Option(help: ArgumentHelp("The SHA-256 of the file, in hexadecimal.", valueName: "hex"))
    package var sha256: DigestArgument?
    @Option(help: ArgumentHelp("The SHA-512 of the file, in hexadecimal.", valueName: "hex"))
    package var sha512: DigestArgument?
    @Option(
        help: ArgumentHelp("The file's HMAC-SHA256, in hexadecimal, under the key of that id.", valueName: "id:hex"))
    package var hmac: MACArgument?
    @Option(help: ArgumentHelp("The MD5 of the file: shows accidents, not tampering.", valueName: "hex"))
    package var md5: DigestArgument?
    @Option(help: ArgumentHelp("The SHA-1 of the file: shows accidents, not tampering.", valueName: "hex"))
    package var sha1: DigestArgument?
    @Option(help: ArgumentHelp("The length of the file.", valueName: "bytes"))
    package var length: UInt64?
    @Option(help: ArgumentHelp("Refuse more than so many: bytes, or with k, M or G.", valueName: "size"))
    package var maxSize: SizeArgument?

    @Option(
        name: [.customShort("H"), .long],
        help: ArgumentHelp("A header of the request; may be repeated.", valueName: "name:value"))
    package var header: [HeaderArgument] = []
    @Option(help: ArgumentHelp("Go through it: http://HOST:PORT or socks5h://HOST:PORT.", valueName: "url"))
    package var proxy: String?
    @Option(help: ArgumentHelp("Bytes per second, or with k, M or G.", valueName: "rate"))
    package var limitRate: SizeArgument?
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
        if let retries, retries < 1 { throw ValidationError("--retries is 1 at least") }
        for (name, digest, length) in [
            ("--sha256", sha256, 32), ("--sha512", sha512, 64), ("--md5", md5, 16), ("--sha1", sha1, 20),
        ] {
            guard let digest, digest.bytes.count != length else { continue }
            throw ValidationError("\(name) has \(2 * length) digits, not \(2 * digest.bytes.count)")
        }
        if let hmac, hmac.tag.count != 32 {
            throw ValidationError("--hmac has 64 digits, not \(2 * hmac.tag.count)")
        }
        if whileLocked == .suspend, protectionClass != .complete {
            throw ValidationError("--while-locked suspend is for files of class complete")
        }
    }
}

/// What a lock means for a download.
package enum WhileLocked: String, ExpressibleByArgument, CaseIterable {
    case `continue`, suspend

    package static var allValueDescriptions: [String: String] {
        [
            `continue`.rawValue: "goes on, as class unless-open until it is finished",
            suspend.rawValue: "stops before the keys go; what has come is class complete",
        ]
    }
}
