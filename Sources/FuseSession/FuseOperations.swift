import CFuse
import Glibc
import SystemPackage

/// libfuse's callbacks: each turns a request into a call of the file system, and what that returns into the reply.
///
/// In a file of its own and outside any actor: a closure that Swift takes for one of the main actor crashes on libfuse's threads.
enum FuseOperations {
    /// How many bytes one request or reply can carry: what fuse(4) allows on every kernel since 4.20.
    static let longestTransfer = 1 << 20

    static func make() -> fuse_lowlevel_ops {
        var operations = fuse_lowlevel_ops()
        operations.`init` = { FuseConnection.begin($1) }
        operations.lookup = { FuseRequest($0).lookUp($2, in: $1) }
        operations.forget = { FuseRequest($0).forget($1, $2) }
        operations.forget_multi = { FuseRequest($0).forget(UnsafeBufferPointer(start: $2, count: $1)) }
        operations.getattr = { request, node, _ in FuseRequest(request).attributes(of: node) }
        operations.readlink = { FuseRequest($0).target(ofLink: $1) }
        operations.statfs = { request, _ in FuseRequest(request).statistics() }
        operations.open = { FuseRequest($0).open($1, $2) }
        operations.read = { FuseRequest($0).read($1, from: $3, count: $2, $4) }
        operations.release = { FuseRequest($0).release($1, $2) }
        operations.opendir = { FuseRequest($0).openDirectory($1, $2) }
        operations.readdirplus = { FuseRequest($0).list($1, from: $3, capacity: $2, $4) }
        operations.releasedir = { request, _, info in FuseRequest(request).releaseDirectory(info) }
        operations.getxattr = { FuseRequest($0).attribute($2, of: $1, capacity: $3) }
        operations.setxattr = { FuseRequest($0).setAttribute($2, of: $1, to: $3, $4, flags: $5) }
        operations.removexattr = { FuseRequest($0).removeAttribute($2, of: $1) }
        operations.retrieve_reply = { request, cookie, _, _, pages in FuseRequest(request).retrieved(cookie, pages) }
        operations.create = { FuseRequest($0).create($2, in: $1, mode: $3, $4) }
        operations.write = { FuseRequest($0).write($1, $2, $3, at: $4, $5) }
        operations.flush = { FuseRequest($0).flush($1, $2) }
        operations.fsync = { request, node, _, info in FuseRequest(request).synchronize(node, info) }
        operations.fsyncdir = { request, node, _, _ in FuseRequest(request).synchronizeDirectory(node) }
        operations.mkdir = { FuseRequest($0).makeDirectory($2, in: $1, mode: $3) }
        operations.mknod = { request, directory, name, mode, _ in
            FuseRequest(request).makeNode(name, in: directory, mode: mode)
        }
        operations.symlink = { FuseRequest($0).makeLink($3, in: $2, to: $1) }
        operations.link = { FuseRequest($0).link($1, as: $3, in: $2) }
        operations.unlink = { FuseRequest($0).remove($2, in: $1, isDirectory: false) }
        operations.rmdir = { FuseRequest($0).remove($2, in: $1, isDirectory: true) }
        operations.rename = { FuseRequest($0).rename($2, in: $1, to: $4, in: $3, flags: $5) }
        operations.setattr = { FuseRequest($0).change($1, $2, $3, $4) }
        operations.listxattr = { FuseRequest($0).attributeNames(of: $1, capacity: $2) }
        return operations
    }
}

private enum FuseConnection {
    static func begin(_ connection: UnsafeMutablePointer<fuse_conn_info>?) {
        guard let connection else { return }
        // Entries come with their attributes, always. Only mappings make pages dirty. Replies are copied, so that buffers can be wiped.
        let unwanted =
            FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE
            | FUSE_CAP_SPLICE_MOVE
            // The kernel itself takes set-user-id bits away.
            | FUSE_CAP_HANDLE_KILLPRIV
        connection.pointee.want &= ~UInt32(unwanted)
        connection.pointee.max_write = UInt32(FuseOperations.longestTransfer)
        connection.pointee.want |= connection.pointee.capable & UInt32(FUSE_CAP_READDIRPLUS)
    }
}

/// A request of the kernel that waits for its reply. Each function here replies exactly once.
struct FuseRequest {
    let request: fuse_req_t?
    private let served: FuseSession.Served
    var files: any FuseFileSystem { served.files }

    init(_ request: fuse_req_t?) {
        self.request = request
        // Set at the session's beginning, and alive as long as it is.
        served = Unmanaged<FuseSession.Served>.fromOpaque(fuse_req_userdata(request)).takeUnretainedValue()
    }

    /// Runs what replies, or replies with the errno that it throws.
    func answer(_ body: () throws(Errno) -> Void) {
        do throws(Errno) {
            if served.refusesOwn, protectfs_is_own_request(request) != 0 { throw Errno(rawValue: EDEADLK) }
            try body()
        } catch { fuse_reply_err(request, error.rawValue) }
    }

    // MARK: names

    func lookUp(_ name: UnsafePointer<CChar>?, in directory: fuse_ino_t) {
        answer { () throws(Errno) in
            reply(try files.lookUp(try component(name), in: directory))
        }
    }

    func component(_ name: UnsafePointer<CChar>?) throws(Errno) -> FilePath.Component {
        guard let name = name.flatMap({ FilePath.Component(platformString: $0) }) else { throw .invalidArgument }
        return name
    }

    func reply(_ entry: FuseEntry) {
        var parameter = entry.parameter
        // A reply that does not arrive gives the kernel nothing that it would forget.
        if fuse_reply_entry(request, &parameter) != 0 { files.forget(entry.node, 1) }
    }

    func forget(_ node: fuse_ino_t, _ count: UInt64) {
        files.forget(node, count)
        fuse_reply_none(request)
    }

    func forget(_ list: UnsafeBufferPointer<fuse_forget_data>) {
        for forgotten in list { files.forget(forgotten.ino, forgotten.nlookup) }
        fuse_reply_none(request)
    }

    func attributes(of node: fuse_ino_t) {
        answer { () throws(Errno) in
            reply(try files.attributes(of: node))
        }
    }

    func reply(_ attributes: FuseAttributes) {
        var status = attributes.status
        fuse_reply_attr(request, &status, attributes.lifetime)
    }

    func target(ofLink node: fuse_ino_t) {
        answer { () throws(Errno) in
            let target = try files.target(ofLink: node) + [0]
            target.withUnsafeBytes { bytes in
                _ = fuse_reply_readlink(request, bytes.assumingMemoryBound(to: CChar.self).baseAddress)
            }
        }
    }

    func statistics() {
        answer { () throws(Errno) in
            var statistics = try files.statistics()
            fuse_reply_statfs(request, &statistics)
        }
    }

    // MARK: files

    func open(_ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
        answer { () throws(Errno) in
            guard let info else { throw .invalidArgument }
            let handle = try files.open(node, flags: info.pointee.flags)
            handle.put(in: info)
            if fuse_reply_open(request, info) != 0 { files.release(handle.number, of: node) }
        }
    }

    func read(_ node: fuse_ino_t, from offset: off_t, count: Int, _ info: UnsafeMutablePointer<fuse_file_info>?) {
        answer { () throws(Errno) in
            guard let info, offset >= 0 else { throw .invalidArgument }
            try files.read(info.pointee.fh, flags: info.pointee.flags, of: node, from: UInt64(offset), count: count) {
                bytes in
                let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
                _ = fuse_reply_buf(request, start, bytes.count)
            }
        }
    }

    /// Pages that ``FuseSession/cachedByteCount(of:limit:)`` asked for.
    func retrieved(_ cookie: UnsafeMutableRawPointer?, _ pages: UnsafeMutablePointer<fuse_bufvec>?) {
        served.retrievals.end(UInt(bitPattern: cookie), count: pages.map { fuse_buf_size($0) } ?? 0)
        fuse_reply_none(request)
    }

    func release(_ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
        if let info { files.release(info.pointee.fh, of: node) }
        fuse_reply_err(request, 0)
    }

    // MARK: directories

    func openDirectory(_ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
        answer { () throws(Errno) in
            guard let info else { throw .invalidArgument }
            let handle = try files.openDirectory(node)
            info.pointee.fh = handle
            if fuse_reply_open(request, info) != 0 { files.releaseDirectory(handle) }
        }
    }

    func list(_ node: fuse_ino_t, from offset: off_t, capacity: Int, _ info: UnsafeMutablePointer<fuse_file_info>?) {
        answer { () throws(Errno) in
            guard let info, offset >= 0 else { throw .invalidArgument }
            let reply = EntryList(request: request, capacity: capacity, next: Int(offset))
            try files.list(info.pointee.fh, of: node, from: Int(offset)) { reply.add($0, $1) }
            fuse_reply_buf(request, reply.start, reply.count)
        }
    }

    func releaseDirectory(_ info: UnsafeMutablePointer<fuse_file_info>?) {
        if let info { files.releaseDirectory(info.pointee.fh) }
        fuse_reply_err(request, 0)
    }

    // MARK: extended attributes

    func attribute(_ name: UnsafePointer<CChar>?, of node: fuse_ino_t, capacity: Int) {
        answer { () throws(Errno) in
            guard let name else { throw .invalidArgument }
            // Names of attributes are text for us. There is none of another kind here.
            guard let name = String(validatingCString: name) else { throw .noData }
            try reply(try files.attribute(name, of: node), capacity: capacity)
        }
    }

    func attributeNames(of node: fuse_ino_t, capacity: Int) {
        answer { () throws(Errno) in try reply(try files.attributeNames(of: node), capacity: capacity) }
    }

    /// The value of an attribute, or with no room at all only its length: getxattr(2).
    private func reply(_ value: [UInt8], capacity: Int) throws(Errno) {
        if capacity == 0 {
            fuse_reply_xattr(request, value.count)
            return
        }
        guard value.count <= capacity else { throw .outOfRange }
        value.withUnsafeBytes { bytes in
            _ = fuse_reply_buf(request, bytes.assumingMemoryBound(to: CChar.self).baseAddress, bytes.count)
        }
    }
}

/// The reply to readdir(3), as it grows.
private final class EntryList {
    private let request: fuse_req_t?
    let start: UnsafeMutablePointer<CChar>
    private let capacity: Int
    private(set) var count = 0
    /// The number of the entry that comes next.
    private var next: Int

    init(request: fuse_req_t?, capacity: Int, next: Int) {
        (self.request, self.capacity, self.next) = (request, capacity, next)
        start = .allocate(capacity: max(capacity, 1))
    }

    deinit { start.deallocate() }

    /// - Returns: false if there is no room for it.
    func add(_ name: FilePath.Component, _ entry: FuseEntry) -> Bool {
        var parameter = entry.parameter
        let needed = name.withPlatformString {
            fuse_add_direntry_plus(request, start + count, capacity - count, $0, &parameter, off_t(next + 1))
        }
        guard needed <= capacity - count else { return false }
        count += needed
        next += 1
        return true
    }
}

extension FuseEntry {
    var parameter: fuse_entry_param {
        var parameter = fuse_entry_param()
        parameter.ino = node
        parameter.generation = 1  // numbers of nodes are not used again
        parameter.attr = attributes.status
        parameter.attr_timeout = attributes.lifetime
        parameter.entry_timeout = attributes.lifetime
        return parameter
    }
}
