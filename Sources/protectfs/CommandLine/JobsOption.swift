import ArgumentParser
import Glibc

/// `--jobs N`.
struct JobsOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Number of files to process at a time (default: two for each processor, 8 to 32).", valueName: "n"))
    var jobs: Int?

    func validate() throws {
        if let jobs, !(1...256).contains(jobs) { throw ValidationError("--jobs takes 1 to 256") }
    }

    var threads: Int { jobs ?? usualThreadCount }
}
