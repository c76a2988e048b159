import SystemPackage
import Testing

/// Protected files are ordinary files for programs that copy.
@Suite("End to end: copies made while locked")
struct EndToEndCopyTests {
    /// From `files` to the directory `$1`; the last ones take `files` away.
    private static let scripts = [
        ("cp", "cp -a files $1"),
        ("tar pipe", "mkdir $1; tar -C files -cf - . | tar -C $1 -xf -"),
        ("tar file", "mkdir $1; tar -C files -cf tar . && tar -C $1 -xf tar"),
        ("rsync", "rsync -a files/ $1/"),
        (
            "rsync over older files",
            "cp -a files $1; for f in $1/*; do : > $f; done; rsync -a --inplace --checksum files/ $1/"
        ),
        ("dd", "mkdir $1; for f in files/*; do dd status=none if=$f of=$1/${f##*/} bs=1000; done"),
        ("mv", "mkdir $1; for f in files/*; do mv $f $1/; done; mv $1 $1-moved; mv $1-moved $1"),
    ]

    @Test("Of files of every class, they read back byte for byte")
    func copies() throws {
        let user = try EndToEndUser.caller()
        try user.unlock()
        let expected = try makeFiles(of: user)
        try user.lock()
        for (index, (name, script)) in Self.scripts.enumerated() {
            let done = try user.run(["sh", "-ec", "cd '\(user.home)'; set -- copy\(index); \(script)"])
            #expect(done.status == 0, "\(name): \(done)")
            try user.expectLocked(user.home.appending("copy\(index)").appending("complete-5000"))
        }
        try user.unlock()
        for (index, (name, _)) in Self.scripts.enumerated() {
            let copy = user.home.appending("copy\(index)")
            #expect(try copy.entries() == expected.map(\.name).sorted(), "\(name)")
            let done = try user.run(["protectfs", "cat"] + expected.map { copy.appending($0.name).string })
            #expect(done.status == 0, "\(name): \(done)")
            #expect(done.output == expected.flatMap(\.bytes), "\(name)")
        }
    }

    /// Of each class: empty ones, small ones, with 4 KiB chunks and with 64 KiB chunks.
    private func makeFiles(of user: EndToEndUser) throws -> [(name: String, bytes: [UInt8])] {
        let files = user.home.appending("files")
        try files.makeDirectory()
        var made: [(name: String, bytes: [UInt8])] = []
        for name in EndToEndUser.classes {
            for size in [0, 5000, 700_000] {
                made.append(("\(name)-\(size)", randomBytes(size)))
                try user.write(files.appending("\(name)-\(size)"), name, made.last!.bytes)
            }
            let bytes = randomBytes(20_000)
            let log = files.appending("\(name)-log")
            for part in [bytes[..<7000], bytes[7000...]] {
                let done = try user.run(
                    ["protectfs", "write", "--append", "--class", name, log.string], input: Array(part))
                #expect(done.status == 0, "\(done)")
            }
            made.append(("\(name)-log", bytes))
        }
        return made
    }
}
