import Glibc
import Synchronization

/// The anchors of the system, where libcrypto was told at its making to look for them. The environment has no say.
///
/// Read once a process, and again when the file or the directory has changed.
final class SystemRoots: Sendable {
    static let system = SystemRoots(file: LibSSL.defaultRoots.file, directory: LibSSL.defaultRoots.directory)

    /// What can be seen of a change from outside.
    private struct Stamp: Equatable {
        let device: UInt
        let inode: UInt
        let size: Int
        let seconds: Int
        let nanoseconds: Int
    }

    private struct Loaded {
        var stamps: [Stamp?] = []
        var stores: [[Certificate]: LibSSL.CertificateStore] = [:]
    }

    /// So many lists of additional anchors are kept ready.
    private static let limit = 16

    private let file: String
    private let directory: String
    private let loaded = Mutex(Loaded())

    /// - Parameters:
    ///   - file: certificates in PEM; need not be there.
    ///   - directory: certificates by the hash of their subjects, as `openssl rehash` makes it; need not be there.
    init(file: String, directory: String) { (self.file, self.directory) = (file, directory) }

    /// A store of the roots and of `more`.
    func store(adding more: [Certificate] = []) throws(TrustError) -> LibSSL.CertificateStore {
        let stamps = [stamp(of: file), stamp(of: directory)]
        return try loaded.withLock { loaded throws(TrustError) in
            if loaded.stamps != stamps { loaded = Loaded(stamps: stamps) }
            if let store = loaded.stores[more] { return store }
            let store = try LibSSL.CertificateStore(more)
            if stamps[0] != nil { store.load(file: file) }
            if stamps[1] != nil { try store.look(in: directory) }
            if loaded.stores.count >= Self.limit { loaded.stores = [:] }
            loaded.stores[more] = store
            return store
        }
    }

    private func stamp(of path: String) -> Stamp? {
        var facts = stat()
        guard stat(path, &facts) == 0 else { return nil }
        return Stamp(
            device: UInt(facts.st_dev), inode: UInt(facts.st_ino), size: Int(facts.st_size),
            seconds: facts.st_mtim.tv_sec, nanoseconds: facts.st_mtim.tv_nsec)
    }
}
