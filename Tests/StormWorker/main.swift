import DataProtection
import Glibc
import SystemPackage

// The other process of the tests of DataProtection:
//
//     storm-worker KEYBAG serve
//     storm-worker KEYBAG remnants DIRECTORY
//     storm-worker KEYBAG crowd ROLE DIRECTORY ARGUMENT…
//     storm-worker KEYBAG turns ROLE ARGUMENT…
//     storm-worker KEYBAG WORKLOAD SEED FIRST ARGUMENT…
//
// `turns` locks or unlocks, or stays in its turn between locks and unlocks. `crowd` works through locks and unlocks until there is a file `stop`, and says then what it met.
// `serve` does what the lines on stdin say. A workload goes on until it is killed and writes the number of each step to
// stdout when that step is acknowledged, from FIRST on. `remnants` uses keys in every way and waits to be searched for them.

let arguments = Array(CommandLine.arguments.dropFirst())
guard arguments.count >= 2 else {
    say("storm-worker: error: usage: storm-worker KEYBAG WORKLOAD [SEED FIRST ARGUMENT...]", to: .standardError)
    exit(64)
}
do {
    let keybag = try Keybag(at: FilePath(arguments[0]))
    if arguments[1] == "serve" {
        Server(keybag: keybag).run()
    } else if arguments[1] == "remnants" {
        try Remnants(keybag, in: FilePath(arguments[2])).run()
    } else if arguments[1] == "turns" {
        try Turns(keybag, Array(arguments.dropFirst(2))).run()
    } else if arguments[1] == "crowd" {
        try Crowd(keybag, Array(arguments.dropFirst(2))).run()
    } else {
        try Workload(keybag, Array(arguments.dropFirst())).run()
    }
} catch {
    say("error \(error)")
    exit(1)
}

/// Writes a line at once: the reader must never learn of a step later than it is done, if this process is killed.
func say(_ line: String, to output: FileDescriptor = .standardOutput) {
    _ = try? output.writeAll(Array("\(line)\n".utf8))  // nobody listens any more: the kill is on its way
}
