/// What is asked for, and what must be so before a file gets its name.
package struct RequestOptions: ParsableArguments {
    @Option(
        name: .customLong("class"),
        help: ArgumentHelp("The class of the finished file (default: complete).", valueName: "class"))
    package var wantedClass: ProtectionClass?
    package var protectionClass: ProtectionClass { wantedClass ?? .complete }
    @Option(help: ArgumentHelp("What to do at a lock: continue, or suspend until the next unlock.", valueName: "what"))
    package var whileLocked = WhileLocked.continue

    @Option(help: ArgumentHelp("The SHA-256 of the file, in hexadecimal.", valueName: "hex"))
    package var sha256: DigestArgument?
    @Option(help: ArgumentHelp("The SHA-512 of the file, in hexadecimal.", valueName: "hex"))
    package var sha512: DigestArgument?
    @Option(
        help: ArgumentHelp(
            "The HMAC-SHA256 of the file, in hexadecimal, under the key with this id.", valueName: "id:hex"))
    package var hmac: MACArgument?
    @Option(help: ArgumentHelp("The MD5 of the file: detects accidents, not tampering.", valueName: "hex"))
    package var md5: DigestArgument?
    @Option(help: ArgumentHelp("The SHA-1 of the file: detects accidents, not tampering.", valueName: "hex"))
    package var sha1: DigestArgument?
    @Option(help: ArgumentHelp("The length of the file in bytes.", valueName: "bytes"))
    package var length: UInt64?
    @Option(help: ArgumentHelp("Refuse a larger file: bytes, or a number with k, M or G.", valueName: "size"))
    package var maxSize: SizeArgument?

    @Option(
        help: ArgumentHelp(
            "Accept only this media type, such as application/zip or image/*, and no login page. May be repeated.",
            valueName: "type"))
    package var acceptType: [String] = []
    @Option(help: ArgumentHelp("Limit the speed: bytes per second, or a number with k, M or G.", valueName: "rate"))
    package var limitRate: SizeArgument?
    @OptionGroup package var transfer: TransferOptions

    package init() {}

    package func validate() throws {
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
