/// Where downloads go.
struct TargetOptions: ParsableArguments {
    @Option(
        name: [.customShort("o"), .customLong("output")],
        help: ArgumentHelp("The file to create, for one URL.", valueName: "file"))
    var output: PathArgument?
    @Option(
        name: [.customShort("d"), .customLong("directory")],
        help: ArgumentHelp(
            "The directory for the files, which are named after their URLs (default: the current one).",
            valueName: "dir"),
        completion: .directory)
    var directory: PathArgument?
    @Flag(help: "Replace an existing file. Checked when the download is added and again when it finishes.")
    var replace = false

    func validate(for urls: [String]) throws {
        if output != nil, urls.count > 1 { throw ValidationError("--output is for one URL; for several: --directory") }
        if output != nil, directory != nil { throw ValidationError("either --output or --directory") }
        if let output, output.isOfDirectory {
            throw ValidationError(
                "--output is a file, and \(quoted(output.path)) is written as a directory: use --directory")
        }
    }
}
