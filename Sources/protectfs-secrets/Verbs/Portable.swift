import Glibc

extension SecretExport {
    func perform() throws {
        let store = try group.store(keybag)
        let scope = try group.scope(allGroups: allGroups)
        let result =
            file.path == "-"
            ? try store.export(scope) { bytes in try StandardOutput.write(bytes) } : try write(store, scope)
        if result.leftOut > 0 {
            StandardError.line(.warning, "\(spoken(result.leftOut, "secret")) of this device only left out")
        }
    }

    private func write(_ store: SecretStore, _ scope: SecretScope) throws -> SecretExportResult {
        do {
            let writer = try ProtectedFileWriter(
                file.stored(followsLast: false), as: .complete, keybag: store.keybag, replacing: replace)
            let result = try store.export(scope) { bytes in try writer.append(bytes) }
            try writer.finish()
            return result
        } catch let error as DataProtectionError {
            throw Failure(replaceable: error)
        }
    }
}

extension SecretImport {
    func perform() throws {
        do { try bringIn() } catch let error as SecretError { throw Failure(replaceable: error) }
    }

    private func bringIn() throws {
        let store = try SecretStore(appID: "protectfs", keybag: keybag.open())
        if file.path == "-" { return try read(store, from: 0, "standard input") }
        let path = try file.stored()
        guard try isProtected(path) else {
            let descriptor = path.withPlatformString { open($0, O_RDONLY | O_CLOEXEC) }
            guard descriptor >= 0 else {
                throw Failure(ExitStatus(.current), "\(quoted(path)): \(Errno.current.spoken)")
            }
            defer { close(descriptor) }
            return try read(store, from: descriptor, quoted(path))
        }
        let protected = try ProtectedFile.open(path, keybag: store.keybag)
        var offset: Int64 = 0
        try store.importSecrets(replacing: replace) { buffer in
            let count = try protected.read(into: buffer, at: offset)
            offset += Int64(count)
            return count
        }
    }

    private func isProtected(_ path: FilePath) throws(DataProtectionError) -> Bool {
        do throws(DataProtectionError) { _ = try ProtectedFileInfo(of: path) } catch .notProtected { return false }
        return true
    }

    private func read(_ store: SecretStore, from descriptor: Int32, _ name: String) throws {
        try store.importSecrets(replacing: replace) { buffer in
            try DescriptorPiece.read(descriptor, into: buffer, name)
        }
    }
}
