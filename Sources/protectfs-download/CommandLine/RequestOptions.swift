/// What is asked for, and what must be so before a file gets its name.
struct RequestOptions: ParsableArguments {
    @Option(
        name: .customLong("class"),
        help: ArgumentHelp("The class of the finished file (default: complete).", valueName: "class"))
    var wantedClass: ProtectionClass?
    var protectionClass: ProtectionClass { wantedClass ?? .complete }
    @Option(help: ArgumentHelp("What to do at a lock: continue, or suspend until the next unlock.", valueName: "what"))
    var whileLocked = WhileLocked.continue

    @Option(help: ArgumentHelp("The SHA-256 of the file, in hexadecimal.", valueName: "hex"))
    var sha256: DigestArgument?
    @Option(help: ArgumentHelp("The SHA-512 of the file, in hexadecimal.", valueName: "hex"))
    var sha512: DigestArgument?
    @Option(
        help: ArgumentHelp(
            "The HMAC-SHA256 of the file, in hexadecimal, under the key with this id.", valueName: "id:hex"))
    var hmac: MACArgument?
    @Option(help: ArgumentHelp("The MD5 of the file: detects accidents, not tampering.", valueName: "hex"))
    var md5: DigestArgument?
    @Option(help: ArgumentHelp("The SHA-1 of the file: detects accidents, not tampering.", valueName: "hex"))
    var sha1: DigestArgument?
    @Option(help: ArgumentHelp("The length of the file in bytes.", valueName: "bytes"))
    var length: UInt64?
    @Option(help: ArgumentHelp("Refuse a larger file: bytes, or a number with k, M or G.", valueName: "size"))
    var maxSize: SizeArgument?

    @Option(
        help: ArgumentHelp(
            "Accept only this media type, such as application/zip or image/*, and no login page. May be repeated.",
            valueName: "type"))
    var acceptType: [String] = []
    @Option(help: ArgumentHelp("Limit the speed: bytes per second, or a number with k, M or G.", valueName: "rate"))
    var limitRate: SizeArgument?
    @OptionGroup var transfer: TransferOptions

    func validate() throws {
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
enum WhileLocked: String, ExpressibleByArgument, CaseIterable {
    case `continue`, suspend

    static var allValueDescriptions: [String: String] {
        [
            `continue`.rawValue: "goes on, as class unless-open until it is finished",
            suspend.rawValue: "stops before the keys go; what has come is class complete",
        ]
    }
}
