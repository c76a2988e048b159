import CLibFuzzer
import Glibc
import TestVectors

// Tests/Fuzz/run calls this:
//
//     fuzz --list                   the names of all targets
//     fuzz --seeds DIRECTORY        writes inputs that are made of the committed vectors, a folder for each target
//     fuzz TARGET [ARGUMENT …]      libFuzzer, with arguments of its own

func fail(_ words: String) -> Never {
    let line = Array("fuzz: error: \(words)\n".utf8)
    write(2, line, line.count)
    exit(64)
}

/// Each by the number that it has: a changed vector is a changed seed.
func writeSeeds(of target: FuzzTarget, below directory: String) throws {
    mkdir(directory, 0o755)
    mkdir("\(directory)/\(target.name)", 0o755)
    for (number, seed) in try target.seeds().enumerated() where seed.count <= target.longest {
        guard let file = fopen("\(directory)/\(target.name)/seed-\(number)", "w") else { fail("cannot write a seed") }
        fwrite(seed, 1, seed.count, file)
        fclose(file)
    }
}

nonisolated(unsafe) var chosen = FuzzTarget.all[0]

/// What has gone wrong here goes the way of a crash: libFuzzer keeps the input.
let callback: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt = { data, count in
    do { try chosen.run(Array(UnsafeBufferPointer(start: data, count: count))) } catch {
        fatalError("\(chosen.name): \(error)")
    }
    return 0
}

switch CommandLine.arguments.dropFirst().first {
case "--list"?: for target in FuzzTarget.all { print(target.name) }
case "--seeds"? where CommandLine.arguments.count == 3:
    for target in FuzzTarget.all { try writeSeeds(of: target, below: CommandLine.arguments[2]) }
case let name?:
    guard let target = FuzzTarget.all.first(where: { $0.name == name }) else { fail("there is no target \(name)") }
    chosen = target
    // libFuzzer takes what is no option for a corpus: the target's name is not for it. The option comes first, so that another
    // length can be given.
    let given = CommandLine.arguments.dropFirst(2)
    var words = ([CommandLine.arguments[0], "-max_len=\(target.longest)"] + given).map { strdup($0) } + [nil]
    var count = CInt(words.count - 1)
    exit(
        words.withUnsafeMutableBufferPointer { words in
            var start = words.baseAddress
            return LLVMFuzzerRunDriver(&count, &start, callback)
        })
case nil: fail("usage: fuzz --list | --seeds DIRECTORY | TARGET [ARGUMENT …]")
}
