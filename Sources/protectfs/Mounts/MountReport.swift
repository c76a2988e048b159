import DataProtection

/// The mounts of this user, and which programs use them.
enum MountReport {
    /// A line for each mount, and one for each program.
    static func print(asJSON isJSON: Bool) throws {
        let mounts = try MountTable.own()
        if isJSON { return try JSON.array(mounts.map(members)).print() }
        var lines = OutputLines()
        for mount in mounts {
            let access = mount.isReadOnlyFileSystem ? "read-only" : "read-write"
            try lines.add(listed(mount.point) + Array(": \(access), ".utf8) + words(of: source(of: mount)))
            for holder in holders(of: mount) {
                let files = holder.files.isEmpty ? "" : ": \(holder.listedFiles)"
                try lines.add(Array("    \(holder.spoken)\(files)".utf8))
            }
        }
        try lines.finish()
    }

    private typealias Source = Result<(path: FilePath, isOver: Bool), DataProtectionError>

    private static func source(of mount: MountTable.Mount) -> Source {
        Result { () throws(DataProtectionError) in try StoredPlace.source(of: mount) }
    }

    private static func words(of source: Source) -> [UInt8] {
        switch source {
        case .success((_, isOver: true)): Array("over the directory itself".utf8)
        case .success(let source): Array("shows ".utf8) + listed(source.path)
        case .failure(let error): Array("its server does not respond: \(error.errno.spoken)".utf8)
        }
    }

    private static func holders(of mount: MountTable.Mount) -> [MountHolder] {
        MountHolder.all(of: mount.id, device: mount.device, at: mount.point)
    }

    private static func members(_ mount: MountTable.Mount) -> JSON {
        let source = source(of: mount)
        let directory =
            if case .success(let found) = source { JSON.members(of: found.path, named: "directory") } else {
                [("directory", JSON.null)]
            }
        let isServed = if case .success = source { true } else { false }
        return .object(
            JSON.members(of: mount.point, named: "point") + directory + [
                ("readOnly", .bool(mount.isReadOnlyFileSystem)), ("served", .bool(isServed)),
                ("programs", .array(holders(of: mount).map(\.json))),
            ])
    }
}
