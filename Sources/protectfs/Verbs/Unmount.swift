import ArgumentParser
import DataProtection

/// Ends a mount.
struct Unmount: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unmount", abstract: "End a mount.",
        discussion: "Fails with status 75 while a program has a file open there, or works in a directory there.")

    @Argument(help: "Where the plaintext is shown.", completion: .directory)
    var point: PathArgument

    func run() throws {
        // Not resolved if the server has died: then nothing below can be reached.
        let path = if let resolved = try? point.path.resolved() { resolved } else { try point.path.absolute() }
        guard case .known(let table) = MountTable.now(), let mount = table.mount(of: path),
            FilePath(mount.point) == path, mount.type == "fuse.protectfs"
        else { throw Failure(.notFound, "no mount of protectfs is at \(quoted(point.path))") }
        let ended = try StartedProgram("fusermount3", words: [Array("-u".utf8), path.bytes]).end()
        guard ended == 0 else {
            throw Failure(
                .notNow, "\(quoted(point.path)) is in use",
                hint: "end the programs that use it; to find them: fuser -vm \(quoted(point.path))")
        }
    }
}
