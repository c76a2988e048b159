package import DataProtection
package import SystemPackage

/// The library, in this process.
package final class LibrarySubject: Subject {
    private let stage: Stage
    private let items: (any ItemStore)?
    private var keybag: Keybag { stage.keybag }

    /// - Parameter items: secrets; nil: they are left out.
    package init(_ stage: Stage, items: (any ItemStore)? = nil) { (self.stage, self.items) = (stage, items) }

    package func enter(_ moment: Moment) throws {
        try stage.enter(moment) {
            switch moment {
            case .beforeFirstUnlock: try stage.forgetKeys()
            case .unlocked: try stage.unlock()
            case .grace:
                try stage.unlock()
                _ = try keybag.armLock(seconds: 60)
            case .locked:
                if try keybag.state() == .beforeFirstUnlock { try stage.unlock() }
                try keybag.lock()
            }
        }
    }

    // MARK: by path

    package func create(_ path: FilePath, as protectionClass: ProtectionClass?, _ bytes: [UInt8]) throws {
        let file = try ProtectedFile.create(path, as: protectionClass, keybag: keybag)
        try bytes.withUnsafeBytes { try file.write($0, at: 0) }
        try file.close()
    }

    package func read(_ path: FilePath) throws -> [UInt8] {
        let held = try open(path, .readOnly)
        return try held.read(at: 0, count: held.size())
    }

    package func write(_ bytes: [UInt8], to path: FilePath, at offset: Int) throws {
        try change(path) { try $0.write(bytes, at: offset) }
    }

    package func append(_ bytes: [UInt8], to path: FilePath) throws { try change(path) { try $0.append(bytes) } }

    package func empty(_ path: FilePath, andWrite bytes: [UInt8]) throws {
        try change(path) {
            try $0.truncate(to: 0)
            try $0.write(bytes, at: 0)
        }
    }

    package func truncate(_ path: FilePath, to size: Int) throws { try change(path) { try $0.truncate(to: size) } }

    /// Without a class: that of the file which is replaced.
    package func replace(_ path: FilePath, by bytes: [UInt8]) throws {
        let writer = try ProtectedFileWriter(path, keybag: keybag)
        try bytes.withUnsafeBytes { try writer.append($0) }
        try writer.finish()
    }

    package func copy(_ source: FilePath, to target: FilePath) throws {
        try ItemCopy(keybag: keybag).copy(source, to: target)
    }

    package func copyCiphertext(_ source: FilePath, to target: FilePath) throws {
        try ProtectedFile.copyCiphertext(from: source, to: target)
    }

    package func protect(_ path: FilePath, as protectionClass: ProtectionClass) throws {
        try keybag.protect(path, as: protectionClass)
    }

    package func unprotect(_ path: FilePath) throws { try keybag.unprotect(path) }

    package func rekey(_ path: FilePath) throws { try keybag.rekey(fileAt: path) }

    package func size(of path: FilePath) throws -> Int { Int(try ProtectedFileInfo(of: path).size) }

    package func protectionClass(of path: FilePath) throws -> ProtectionClass {
        try ProtectedFileInfo(of: path).protectionClass
    }

    package func list(_ directory: FilePath) throws -> [(name: String, protectionClass: ProtectionClass?)] {
        try DirectoryListing.names(of: directory).map { ($0, try protectionClass(of: directory.appending($0))) }
    }

    package func setClass(_ protectionClass: ProtectionClass, of path: FilePath) throws {
        try keybag.setProtection(protectionClass, ofItemAt: path)
    }

    // MARK: secrets

    private func store() throws -> any ItemStore {
        guard let items else { throw NotApplicable("the library of files has no secrets") }
        return items
    }

    package func addItem(_ account: String, as protectionClass: ProtectionClass, _ bytes: [UInt8]) throws {
        try store().addItem(account, as: protectionClass, bytes)
    }

    package func readItem(_ account: String) throws -> [UInt8] { try store().readItem(account) }

    package func updateItem(_ account: String, _ bytes: [UInt8]) throws { try store().updateItem(account, bytes) }

    // MARK: handles

    package func hold(_ path: FilePath, for purpose: Purpose) throws -> any HeldFile {
        try open(path, purpose == .reading ? .readOnly : .readWrite)
    }

    package func holdNew(
        _ path: FilePath, as protectionClass: ProtectionClass, _ bytes: [UInt8]
    ) throws -> any HeldFile {
        let held = Handle(file: try ProtectedFile.create(path, as: protectionClass, keybag: keybag))
        try held.write(bytes, at: 0)
        try held.sync()
        return held
    }

    private func open(_ path: FilePath, _ access: ProtectedFile.Access) throws -> Handle {
        Handle(file: try ProtectedFile.open(path, access, keybag: keybag))
    }

    private func change(_ path: FilePath, _ body: (Handle) throws -> Void) throws {
        let held = try open(path, .readWrite)
        try body(held)
        try held.close()
    }

    private final class Handle: HeldFile {
        private let file: ProtectedFile
        let preamble: [UInt8] = []
        let worksAgain = true

        init(file: ProtectedFile) { self.file = file }

        func size() throws -> Int { Int(try file.size()) }

        func read(at offset: Int, count: Int) throws -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: count)
            let done = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: Int64(offset)) }
            return Array(bytes.prefix(done))
        }

        func write(_ bytes: [UInt8], at offset: Int) throws {
            try bytes.withUnsafeBytes { try file.write($0, at: Int64(offset)) }
        }

        func append(_ bytes: [UInt8]) throws { try bytes.withUnsafeBytes { _ = try file.append($0) } }
        func truncate(to size: Int) throws { try file.truncate(to: Int64(size)) }
        func sync() throws { try file.sync() }
        func close() throws { try file.close() }
    }

    // MARK: errors

    /// ENOKEY must come with the facts that a caller acts on.
    package func finding(of error: any Error, at moment: Moment, classes: Set<ProtectionClass>) -> Finding? {
        if let items, items.isLocked(error, moment, classes) { return .locked }
        guard let error = error as? DataProtectionError else { return nil }
        if error.errno == .invalidArgument { return .refused }
        guard case .because(KeybagFailure.locked(let path, let named, _, let state, let since)) = error else {
            return nil
        }
        guard error.errno.rawValue == 126 else { return .other("locked, but its errno is \(error.errno)") }
        guard classes.contains(named) else { return .other("ENOKEY, but it names class \(named.shortName)") }
        guard state == moment.state else { return .other("ENOKEY, but it says \(state.rawValue)") }
        guard path.starts(with: stage.scratch.path) else { return .other("ENOKEY, but it names \(path)") }
        guard (since?.timeIntervalSince1970 ?? 0) > 1_500_000_000 else {
            return .other("ENOKEY, but it does not say since when")
        }
        return .locked
    }
}
