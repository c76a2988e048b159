import ArgumentParser
import DataProtection

/// Ends mounts.
struct Unmount: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unmount", abstract: "End a mount.",
        discussion: "Fails with status 75 while a program has a file open there, or works in a directory there.")

    @Argument(help: "Where the plaintext is shown.", completion: .directory)
    var point: PathArgument?
    @Flag(help: "End all mounts of this user.")
    var all = false
    @Flag(help: "Do not mount the directory at login any more, either.")
    var atLogin = false

    func validate() throws {
        if all == (point != nil) { throw ValidationError("name a mount, or give --all") }
        if all, atLogin { throw ValidationError("--at-login is for one directory") }
    }

    func run() throws {
        guard let point else { return try unmountAll() }
        guard atLogin else { return try unmount(found(point)) }
        try MountList.remove(point.path)
        if let mount = try? found(point) { try unmount(mount) }
    }

    private func unmountAll() throws {
        let outcome = Outcome()
        // One that lies in another goes first.
        for mount in try MountTable.own().reversed() {
            do { try unmount(mount) } catch { outcome.record(error) }
        }
        try outcome.leave()
    }

    private func unmount(_ mount: MountTable.Mount) throws {
        let words = [Array("-u".utf8), mount.point.bytes]
        let program = try StartedProgram("fusermount3", words: words, tellsErrors: true)
        let said = try program.text("fusermount3")
        let status = program.end()
        guard status == 0 else { throw failure(mount, said, status) }
        MountNote.removeEnded(ofKeybag: Locations.keybag)
    }

    /// - Parameter said: what fusermount3(1) has printed, as `fusermount3: failed to unmount POINT: reason`.
    private func failure(_ mount: MountTable.Mount, _ said: String, _ status: Int32) -> Failure {
        let line = said.split(separator: "\n").last.map(String.init) ?? ""
        if line.hasSuffix(": \(Errno.resourceBusy)") { return inUse(mount) }
        let isRefused = [Errno.notPermitted, .permissionDenied].contains { line.hasSuffix(": \($0)") }
        let hint =
            isRefused
            ? "run the command as the user who mounted it. If that is you: fusermount3 needs its setuid bit, which the package fuse3 sets"
            : nil
        let reason = line.isEmpty ? "fusermount3 ended with status \(status)" : printable(line)
        return Failure(
            isRefused ? .refused : .systemRefused, "\(quoted(mount.point)) cannot be unmounted: \(reason)", hint: hint)
    }

    /// The mount, found without a look at it: its server may be dead, or hang.
    private func found(_ point: PathArgument) throws(Failure) -> MountTable.Mount {
        guard case .known(let table) = MountTable.reading() else {
            throw Failure(.systemRefused, "/proc/self/mountinfo cannot be read")
        }
        // Last by a look at all of the path: it is a link, or is in a mount that answers.
        let paths: [() throws -> FilePath] = [
            { try point.path.absolute() }, { try point.path.withResolvedDirectory() }, { try point.path.resolved() },
        ]
        for path in paths {
            guard let path = try? path() else { continue }
            if let mount = table.mounts.last(where: { $0.type == MountNote.type && $0.point == path }) { return mount }
        }
        throw Failure(.notFound, "no mount of protectfs is at \(quoted(point.path))")
    }

    private func inUse(_ mount: MountTable.Mount) -> Failure {
        let holders = MountHolder.all(of: mount.id, device: mount.device, at: mount.point)
        return Failure(
            .notNow, "\(quoted(mount.point)) is in use",
            hint: holders.isEmpty
                ? "end the programs that use it; to find them: fuser -vm \(quoted(mount.point))"
                : "end these programs, or let them work elsewhere: "
                    + holders.map(\.spoken).joined(separator: ", "))
    }
}

extension FilePath {
    /// The last name is taken as it is; what it is in has no links and dots.
    fileprivate func withResolvedDirectory() throws -> FilePath {
        guard let name = lastComponent, name.kind == .regular else { return try resolved() }
        return try directory.resolved().appending(name)
    }
}
