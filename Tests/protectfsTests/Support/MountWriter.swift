import Foundation
import Testing

/// A program that has a file of a mount open and mapped, does one thing at a time, and says when that is done.
final class MountWriter {
    private let process: Process
    private let (input, output) = (Pipe(), Pipe())

    /// - Parameter name: of the file, below the sandbox.
    init(_ bed: MountBed, file name: String) throws {
        process = bed.sandbox.start("/usr/bin/python3", ["-c", MountBed.prelude + Self.script, name], input: input)
        process.standardOutput = output
        try process.run()
        try hear("ready")
    }

    deinit { end() }

    /// Functions of numbers. `halt` and `proceed` stop the server and let it go on; what `store` stores in between reaches it later.
    /// `flush` is msync(2). `replace` renames the new file after it has closed it, or, with 0 as the last number, before, with its
    /// directory flushed in between.
    private static let script = """
        name = sys.argv[1]
        descriptor = os.open(name, os.O_RDWR)
        mapping = mmap.mmap(descriptor, 0)
        def write(offset, count, byte):
            assert os.pwrite(descriptor, bytes([byte]) * count, offset) == count
            os.fsync(descriptor)
        def cut(size):
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        def append(count, byte):
            with open(name, 'ab') as file: file.write(bytes([byte]) * count)
        def store(offset, count, byte): mapping[offset:offset + count] = bytes([byte]) * count
        def flush(): mapping.flush()
        def new(number, count, byte):
            with open('point/new%d' % number, 'wb') as file: file.write(bytes([byte]) * count)
        def replace(count, byte, isClosed):
            with open('point/unfinished', 'wb', buffering=0) as file:
                file.write(bytes([byte]) * count)
                if not isClosed:
                    os.rename('point/unfinished', name)
                    flushNames()
            if isClosed: os.rename('point/unfinished', name)
        def flushNames():
            directory = os.open('point', os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
        def halt():
            bytes(mapping)  # what is not in memory would be asked for
            stop(server())
        def proceed(): os.kill(server(), signal.SIGCONT)
        print('ready', flush=True)
        for line in sys.stdin:
            words = line.split()
            globals()[words[0]](*map(int, words[1:]))
            print('done', flush=True)
        """

    /// Calls a function of the script. What it asks of the mount is acknowledged when this returns.
    func call(_ function: String, _ numbers: Int...) throws {
        let line = ([function] + numbers.map(String.init)).joined(separator: " ")
        try input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8))
        try hear("done", Comment(rawValue: line))
    }

    private func hear(_ word: String, _ comment: Comment? = nil) throws {
        try #require(String(decoding: output.fileHandleForReading.availableData, as: UTF8.self) == word + "\n", comment)
    }

    /// kill -9.
    func end() {
        guard process.isRunning else { return }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}
